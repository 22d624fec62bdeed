//! says: atomic
//! features: SHADER_INT64, SHADER_INT64_ATOMIC_MIN_MAX
//! same-text-as: valid/atomics_of_64_bits
// All atomic operations on 64-bit integers.
@group(0) @binding(0) var<storage, read_write> totals: array<atomic<u64>, 4>;
@group(0) @binding(1) var<storage, read_write> low: atomic<i64>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    atomicAdd(&totals[0], u64(id.x) * 0x100000000lu);
    atomicMax(&totals[1], u64(id.x));
    let before = atomicExchange(&totals[2], 7lu);
    atomicOr(&totals[3], before);
    atomicMin(&low, -5li);
    let swapped = atomicCompareExchangeWeak(&low, 1li, 2li);
    atomicSub(&low, swapped.old_value);
}
