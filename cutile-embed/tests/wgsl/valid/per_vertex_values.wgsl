//! features: SHADER_PER_VERTEX
// The three values that a fragment is interpolated between.
enable wgpu_per_vertex;

@fragment
fn main(@location(0) @interpolate(per_vertex) values: array<f32, 3>) -> @location(0) vec4<f32> {
    return vec4<f32>(values[0], values[1], values[2], 1.0);
}
