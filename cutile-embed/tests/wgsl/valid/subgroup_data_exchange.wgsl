//! features: SUBGROUP
// What lanes hand to one another.
@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(32)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let value = data[id.x];
    var sum = subgroupBroadcastFirst(value) + subgroupBroadcast(value, 4u);
    sum += subgroupShuffle(value, lane ^ 1u) + subgroupShuffleXor(value, 2u);
    sum += subgroupShuffleDown(value, 1u) + subgroupShuffleUp(value, 1u);
    sum += quadBroadcast(value, 2u) + quadSwapX(value) + quadSwapY(value) + quadSwapDiagonal(value);
    let ballot = subgroupBallot(value > 0.0);
    data[id.x] = sum + f32(countOneBits(ballot.x) + countOneBits(ballot.y));
}
