//! features: MEMORY_DECORATION_COHERENT, MEMORY_DECORATION_VOLATILE
// Memory that others see at once.
@group(0) @binding(0) @coherent var<storage, read_write> flags: array<u32>;
@group(0) @binding(1) @volatile var<storage, read_write> ticks: array<u32>;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    flags[id.x] = ticks[0];
    ticks[1] = flags[id.x + 1u];
}
