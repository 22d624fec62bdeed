// How a value comes from the vertices to the fragment.
struct Varying {
    @builtin(position) position: vec4<f32>,
    @location(0) @interpolate(perspective) a: f32,
    @location(1) @interpolate(perspective, centroid) b: vec2<f32>,
    @location(2) @interpolate(linear) c: vec3<f32>,
    @location(3) @interpolate(linear, sample) d: vec4<f32>,
    @location(4) @interpolate(flat) e: vec2<i32>,
    @location(5) @interpolate(flat, either) f: u32,
    @location(6) @interpolate(perspective, sample) g: f32,
}

@vertex
fn emit_vertex(@location(0) at: vec4<f32>) -> Varying {
    return Varying(at, at.x, at.xy, at.xyz, at, vec2<i32>(at.xy), u32(at.z), at.w);
}

@fragment
fn main(in: Varying) -> @location(0) vec4<f32> {
    return in.d + vec4<f32>(in.c, in.a) + vec4<f32>(in.b, vec2<f32>(in.e)) * f32(in.f) + in.g;
}
