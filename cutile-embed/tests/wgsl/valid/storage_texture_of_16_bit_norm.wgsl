//! features: TEXTURE_FORMAT_16BIT_NORM
// Formats that need a feature.
@group(0) @binding(0) var plane: texture_storage_2d<rgba16unorm, write>;
@group(0) @binding(1) var line: texture_storage_1d<r16snorm, write>;

@compute @workgroup_size(1)
fn main() {
    textureStore(plane, vec2<i32>(1, 2), vec4<f32>(0.5));
    textureStore(line, 3, vec4<f32>(-0.5));
}
