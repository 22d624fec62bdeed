// Textures and samplers as arguments.
@group(0) @binding(0) var first: texture_2d<f32>;
@group(0) @binding(1) var second: texture_2d<f32>;
@group(0) @binding(2) var smooth_sampler: sampler;
@group(0) @binding(3) var depth: texture_depth_2d;
@group(0) @binding(4) var compare: sampler_comparison;

fn pick(image: texture_2d<f32>, by: sampler, at: vec2<f32>) -> vec4<f32> {
    return textureSampleLevel(image, by, at, 0.0);
}

fn lit(image: texture_depth_2d, by: sampler_comparison, at: vec2<f32>) -> f32 {
    return textureSampleCompareLevel(image, by, at, 0.5);
}

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    let mixed = mix(pick(first, smooth_sampler, at), pick(second, smooth_sampler, at.yx), 0.5);
    return mixed * lit(depth, compare, at);
}
