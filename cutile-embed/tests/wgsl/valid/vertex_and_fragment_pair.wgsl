// Two stages that share a structure; the position is invariant.
struct Varying {
    @builtin(position) @invariant position: vec4<f32>,
    @location(0) uv: vec2<f32>,
}

@vertex
fn corner(@builtin(vertex_index) index: u32) -> Varying {
    let uv = vec2<f32>(f32((index << 1u) & 2u), f32(index & 2u));
    return Varying(vec4<f32>(uv * 2.0 - 1.0, 0.0, 1.0), uv);
}

@fragment
fn shade(in: Varying) -> @location(0) vec4<f32> {
    return vec4<f32>(in.uv, 0.5, 1.0);
}
