// What a texture says of itself.
@group(0) @binding(0) var plane: texture_2d<f32>;
@group(0) @binding(1) var layers: texture_2d_array<f32>;
@group(0) @binding(2) var volume: texture_3d<f32>;
@group(0) @binding(3) var skies: texture_cube_array<f32>;
@group(0) @binding(4) var samples: texture_multisampled_2d<f32>;
@group(0) @binding(5) var target_texture: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(6) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(1)
fn main() {
    result[0] = textureDimensions(plane).x + textureDimensions(plane, 1).y;
    result[1] = textureNumLayers(layers) + textureDimensions(layers).y;
    result[2] = textureDimensions(volume).z + textureNumLevels(volume);
    result[3] = textureNumLayers(skies) + textureNumLevels(skies);
    result[4] = textureNumSamples(samples);
    result[5] = textureDimensions(target_texture).x;
}
