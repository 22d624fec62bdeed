//! features: SHADER_INT64, SHADER_INT64_ATOMIC_MIN_MAX
// The smaller of the two features.
@group(0) @binding(0) var<storage, read_write> nearest: array<atomic<u64>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let packed = (u64(id.x) << 32u) | u64(id.y);
    atomicMin(&nearest[id.z], packed);
    atomicMax(&nearest[id.z + 1u], packed);
}
