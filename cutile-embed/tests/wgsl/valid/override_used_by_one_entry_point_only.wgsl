//! constants: first_size=32, second_size=16
//! constants: second_size=4
//! constants:
//! entry-points: first
//! entry-points: second
//! entry-points: first, second
// Each entry point has an override of its own, and another one is given a value, too.
override first_size: u32 = 8u;
override second_size: u32 = 8u;

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(first_size)
fn first(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = 1u;
}

@compute @workgroup_size(second_size)
fn second(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = 2u;
}
