// Multisampled color and depth.
@group(0) @binding(0) var color: texture_multisampled_2d<f32>;
@group(0) @binding(1) var counts: texture_multisampled_2d<u32>;
@group(0) @binding(2) var depth: texture_depth_multisampled_2d;

@fragment
fn resolve(
    @builtin(position) at: vec4<f32>,
    @builtin(sample_index) sample: u32,
) -> @location(0) vec4<f32> {
    let texel = vec2<i32>(at.xy);
    var sum = vec4<f32>(0.0);
    for (var each = 0; each < i32(textureNumSamples(color)); each++) {
        sum += textureLoad(color, texel, each);
    }
    sum.a = textureLoad(depth, texel, i32(sample));
    return sum * f32(textureLoad(counts, texel, 0).x);
}
