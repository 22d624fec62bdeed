//! constants: rows=4, columns=8
//! constants: columns=32
//! constants:
// Two workgroup arrays, of equal and of unequal length after they have values.
override rows: u32 = 8u;
override columns: u32 = 8u;
var<workgroup> left: array<vec4<f32>, rows>;
var<workgroup> right: array<vec4<f32>, columns>;

@group(0) @binding(0) var<storage, read_write> data: array<vec4<f32>>;

@compute @workgroup_size(4)
fn main(@builtin(local_invocation_index) index: u32) {
    left[index] = data[index];
    right[index] = data[index + rows];
    workgroupBarrier();
    data[index] = left[rows - 1u - index] * right[index];
}
