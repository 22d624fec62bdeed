//! constants: width=16, height=4
//! constants: width=1
//! constants:
//! refused: width=0
// Two overrides that are the workgroup size.
override width: u32 = 8u;
override height: u32 = 8u;

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(width, height)
fn main(@builtin(local_invocation_index) index: u32) {
    data[index] = width * height;
}
