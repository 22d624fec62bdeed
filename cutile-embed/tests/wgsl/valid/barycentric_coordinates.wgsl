//! features: SHADER_BARYCENTRICS
// Where in its triangle a fragment is.
@fragment
fn main(@builtin(barycentric) at: vec3<f32>) -> @location(0) vec4<f32> {
    return vec4<f32>(at, 1.0);
}

@fragment
fn without_perspective(
    @builtin(barycentric_no_perspective) at: vec3<f32>,
) -> @location(0) vec4<f32> {
    return vec4<f32>(at, 1.0);
}
