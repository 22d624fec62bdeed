//! features: EXTERNAL_TEXTURE
// A frame of a video.
@group(0) @binding(0) var frame: texture_external;
@group(0) @binding(1) var smooth_sampler: sampler;

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    let size = textureDimensions(frame);
    let first = textureLoad(frame, vec2<u32>(0u));
    return textureSampleBaseClampToEdge(frame, smooth_sampler, at) + first * f32(size.x);
}
