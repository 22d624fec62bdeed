//! features: SHADER_FLOAT32_ATOMIC
// Atomic addition of floats.
@group(0) @binding(0) var<storage, read_write> sums: array<atomic<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    atomicAdd(&sums[id.x % 4u], 0.5);
    atomicSub(&sums[5], 1.5);
    let before = atomicExchange(&sums[6], 2.0);
    atomicStore(&sums[7], before);
}
