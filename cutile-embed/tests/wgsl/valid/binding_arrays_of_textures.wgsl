//! features: TEXTURE_BINDING_ARRAY, SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING, STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING, UNIFORM_BUFFER_BINDING_ARRAYS, BUFFER_BINDING_ARRAY, STORAGE_RESOURCE_BINDING_ARRAY, ACCELERATION_STRUCTURE_BINDING_ARRAY
// Arrays of textures and samplers, indexed by what varies.
enable wgpu_binding_array;

@group(0) @binding(0) var textures: binding_array<texture_2d<f32>, 64>;
@group(0) @binding(1) var few: binding_array<texture_2d<f32>, 4>;
@group(0) @binding(2) var samplers: binding_array<sampler, 4>;
@group(0) @binding(3) var depths: binding_array<texture_depth_2d, 2>;
@group(0) @binding(4) var outputs: binding_array<texture_storage_2d<rgba8unorm, write>, 2>;

@fragment
fn main(
    @location(0) at: vec2<f32>,
    @location(1) @interpolate(flat) index: u32,
) -> @location(0) vec4<f32> {
    var color = textureSampleLevel(textures[index], samplers[0], at, 0.0);
    color += textureSample(few[1], samplers[index], at);
    color += vec4<f32>(textureLoad(depths[1], vec2<i32>(at), 0));
    textureStore(outputs[index], vec2<i32>(at), color);
    return color * f32(textureDimensions(textures[0]).x);
}
