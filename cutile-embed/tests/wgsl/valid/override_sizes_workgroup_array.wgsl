//! constants: tile=32
//! constants:
// The length of a workgroup array is an expression over an override.
override tile: u32 = 16u;
var<workgroup> shared_rows: array<f32, tile * 2u>;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(tile)
fn main(@builtin(local_invocation_index) index: u32) {
    shared_rows[index] = data[index];
    shared_rows[index + tile] = data[index + tile];
    workgroupBarrier();
    data[index] = shared_rows[tile * 2u - 1u - index];
}
