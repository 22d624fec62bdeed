// A fragment stage with two colors, a depth and a sample mask.
struct Targets {
    @location(0) albedo: vec4<f32>,
    @location(2) normal: vec2<u32>,
    @builtin(frag_depth) depth: f32,
    @builtin(sample_mask) mask: u32,
}

@fragment
fn fill(
    @builtin(position) at: vec4<f32>,
    @builtin(front_facing) front: bool,
    @builtin(sample_mask) covered: u32,
) -> Targets {
    var out: Targets;
    out.albedo = select(vec4<f32>(1.0, 0.0, 0.0, 1.0), vec4<f32>(0.0, 1.0, 0.0, 1.0), front);
    out.normal = vec2<u32>(at.xy);
    out.depth = at.z * 0.5;
    out.mask = covered & 0x5u;
    return out;
}
