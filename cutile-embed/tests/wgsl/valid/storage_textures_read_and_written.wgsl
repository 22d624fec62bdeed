//! features: TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES
// Storage textures of each access, and the barrier between writing and reading one.
requires readonly_and_readwrite_storage_textures;

@group(0) @binding(0) var source: texture_storage_2d<r32uint, read>;
@group(0) @binding(1) var both: texture_storage_2d<r32sint, read_write>;
@group(0) @binding(2) var layers: texture_storage_2d_array<rgba16float, read>;
@group(0) @binding(3) var sink: texture_storage_2d<rgba32float, write>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = vec2<i32>(id.xy);
    textureStore(both, at, vec4<i32>(textureLoad(source, at)));
    textureBarrier();
    let found = textureLoad(both, at + vec2<i32>(1, 0));
    textureStore(sink, at, vec4<f32>(found) + textureLoad(layers, at, 2));
}
