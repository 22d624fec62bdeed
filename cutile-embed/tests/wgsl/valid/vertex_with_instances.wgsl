// A vertex stage that reads attributes and both of its indices.
struct Out {
    @builtin(position) position: vec4<f32>,
    @location(0) color: vec3<f32>,
    @location(1) @interpolate(flat) instance: u32,
}

@group(0) @binding(0) var<uniform> view: mat4x4<f32>;

@vertex
fn transform(
    @location(0) at: vec3<f32>,
    @location(1) color: vec3<f32>,
    @builtin(vertex_index) vertex_index: u32,
    @builtin(instance_index) instance: u32,
) -> Out {
    var out: Out;
    let shift = vec3<f32>(f32(instance) * 2.0, 0.0, f32(vertex_index & 1u));
    out.position = view * vec4<f32>(at + shift, 1.0);
    out.color = color;
    out.instance = instance;
    return out;
}
