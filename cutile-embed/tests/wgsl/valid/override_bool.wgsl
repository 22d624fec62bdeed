//! constants: invert=1
//! constants: invert=0
//! constants:
// An override that chooses a branch.
override invert: bool = false;

@group(0) @binding(0) var<storage, read_write> flags: array<u32>;

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if invert {
        flags[id.x] = ~flags[id.x];
    }
}
