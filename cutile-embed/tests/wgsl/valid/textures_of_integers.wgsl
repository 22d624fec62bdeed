// Integer textures have no sampler: texels are loaded and gathered.
@group(0) @binding(0) var ids: texture_2d<u32>;
@group(0) @binding(1) var offsets: texture_3d<i32>;
@group(0) @binding(2) var layers: texture_2d_array<u32>;
@group(0) @binding(3) var nearest: sampler;
@group(0) @binding(4) var<storage, read_write> result: array<vec4<u32>>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let own = textureLoad(ids, vec2<i32>(id.xy), 0);
    let offset = textureLoad(offsets, vec3<i32>(id), 1);
    let layer = textureLoad(layers, id.xy, id.z, 0u);
    let around = textureGather(2, ids, nearest, vec2<f32>(id.xy) / 64.0);
    result[id.x] = own + bitcast<vec4<u32>>(offset) + layer + around;
}
