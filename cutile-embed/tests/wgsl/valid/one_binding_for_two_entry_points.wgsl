//! entry-points: vertex_side
//! entry-points: fragment_side
//! entry-points:
// The same group and number in two entry points, with other types: allowed, as neither uses both.
@group(0) @binding(0) var<uniform> view: mat4x4<f32>;
@group(0) @binding(0) var<uniform> tint: vec4<f32>;

@vertex
fn vertex_side(@location(0) at: vec4<f32>) -> @builtin(position) vec4<f32> {
    return view * at;
}

@fragment
fn fragment_side() -> @location(0) vec4<f32> {
    return tint;
}
