//! says: capabilit
//! same-text-as: valid/integers_of_64_bits
// 64-bit integers in literals, vectors, buffers and conversions.
@group(0) @binding(0) var<storage, read_write> whole: array<i64>;
@group(0) @binding(1) var<storage, read_write> natural: array<vec2<u64>>;

const LARGE: u64 = 0xfedcba9876543210lu;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let product = natural[0] * vec2<u64>(LARGE, u64(id.x));
    natural[1] = product >> vec2<u32>(3u) | product;
    whole[0] = i64(id.y) * -5000000000li + whole[1] / whole[2];
    whole[3] = bitcast<i64>(natural[2].x) - i64(f32(whole[0]));
    whole[4] = abs(min(whole[5], 9223372036854775807li));
}
