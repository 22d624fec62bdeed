//! says: sampl
@group(0) @binding(0) var ids: texture_2d<u32>;
@group(0) @binding(1) var nearest: sampler;

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    return vec4<f32>(textureSample(ids, nearest, at));
}
