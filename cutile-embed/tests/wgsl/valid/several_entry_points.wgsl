//! entry-points: scale
//! entry-points: offset, scale
//! entry-points:
// Three entry points of one stage; each uses another part of the module.
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@group(0) @binding(1) var<uniform> factor: f32;
@group(0) @binding(2) var<uniform> shift: f32;
@group(0) @binding(3) var<storage, read> other: array<f32>;

fn product(value: f32) -> f32 {
    return value * factor;
}

@compute @workgroup_size(64)
fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = product(data[id.x]);
}

@compute @workgroup_size(32, 2)
fn offset(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] += shift;
}

@compute @workgroup_size(1)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = other[id.x];
}
