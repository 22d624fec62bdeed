//! says: capabilit
//! same-text-as: valid/early_depth_test
// Tests before the fragment runs: forced, and as the depth allows.
@group(0) @binding(0) var<storage, read_write> counter: atomic<u32>;

@fragment
@early_depth_test(force)
fn forced(@location(0) color: vec4<f32>) -> @location(0) vec4<f32> {
    atomicAdd(&counter, 1u);
    return color;
}

@fragment
@early_depth_test(less_equal)
fn bounded(@builtin(position) at: vec4<f32>) -> @builtin(frag_depth) f32 {
    return at.z * 0.5;
}
