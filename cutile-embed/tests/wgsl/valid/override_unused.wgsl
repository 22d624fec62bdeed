//! constants: never=5
//! constants: size=32
//! constants:
//! entry-points: main
// A value may be given to an override that nothing uses.
override never: u32 = 1u;
override size: u32 = 64u;

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(size)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = id.x;
}
