//! says: sampl
@group(0) @binding(0) var plane: texture_2d<f32>;
@group(0) @binding(1) var compare: sampler_comparison;

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    return textureSample(plane, compare, at);
}
