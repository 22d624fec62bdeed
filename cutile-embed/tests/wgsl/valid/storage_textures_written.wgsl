// Storage textures of all dimensions and of several formats.
@group(0) @binding(0) var line: texture_storage_1d<r32float, write>;
@group(0) @binding(1) var plane: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(2) var layers: texture_storage_2d_array<rgba16float, write>;
@group(0) @binding(3) var volume: texture_storage_3d<rgba32uint, write>;
@group(0) @binding(4) var signed_plane: texture_storage_2d<rgba8sint, write>;
@group(0) @binding(5) var swapped: texture_storage_2d<bgra8unorm, write>;

@compute @workgroup_size(4, 4, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let color = vec4<f32>(vec3<f32>(id) / 64.0, 1.0);
    textureStore(line, id.x, color);
    textureStore(plane, vec2<i32>(id.xy), color);
    textureStore(layers, id.xy, id.z, color);
    textureStore(volume, id, vec4<u32>(id, 0u));
    textureStore(signed_plane, id.xy, vec4<i32>(vec3<i32>(id), -1));
    textureStore(swapped, id.xy, color);
}
