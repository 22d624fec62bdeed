//! says: stage
@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(4)
fn main(@builtin(local_invocation_index) index: u32) {
    data[index] = dpdx(f32(index));
}
