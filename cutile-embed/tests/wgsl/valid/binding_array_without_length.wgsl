//! features: TEXTURE_BINDING_ARRAY, SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING, STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING, UNIFORM_BUFFER_BINDING_ARRAYS, BUFFER_BINDING_ARRAY, STORAGE_RESOURCE_BINDING_ARRAY, ACCELERATION_STRUCTURE_BINDING_ARRAY
// An array of textures that has as many as the program binds.
enable wgpu_binding_array;

@group(0) @binding(0) var textures: binding_array<texture_2d<f32>>;
@group(0) @binding(1) var smooth_sampler: sampler;

@fragment
fn main(
    @location(0) at: vec2<f32>,
    @location(1) @interpolate(flat) index: u32,
) -> @location(0) vec4<f32> {
    return textureSampleLevel(textures[index], smooth_sampler, at, 0.0);
}
