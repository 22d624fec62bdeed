//! constants: bias=-2147483648
//! constants: bias=2147483647
//! constants:
// A signed override, at both ends of its range.
override bias: i32 = -3;

@group(0) @binding(0) var<storage, read_write> data: array<i32>;

@compute @workgroup_size(1)
fn main() {
    data[0] = data[0] + bias;
    data[1] = bias / 7;
}
