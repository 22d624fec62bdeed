//! features: TEXTURE_BINDING_ARRAY, SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING, STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING, UNIFORM_BUFFER_BINDING_ARRAYS, BUFFER_BINDING_ARRAY, STORAGE_RESOURCE_BINDING_ARRAY, ACCELERATION_STRUCTURE_BINDING_ARRAY
// Arrays of uniform and of storage buffers.
enable wgpu_binding_array;

struct Small {
    value: vec4<f32>,
}

struct Rows {
    rows: array<vec4<f32>>,
}

@group(0) @binding(0) var<uniform> small: binding_array<Small, 8>;
@group(0) @binding(1) var<storage, read_write> large: binding_array<Rows, 8>;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let value = small[id.x & 7u].value;
    large[id.y & 7u].rows[id.x] = value + large[0].rows[0];
}
