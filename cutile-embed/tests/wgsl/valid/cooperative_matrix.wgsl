//! features: EXPERIMENTAL_COOPERATIVE_MATRIX
// A product of matrices that a subgroup computes together.
enable wgpu_cooperative_matrix;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(32)
fn main() {
    let a = coopLoad<coop_mat8x8<f32, A>>(&data[0], 8);
    let b = coopLoad<coop_mat8x8<f32, B>>(&data[64], 8);
    var c = coop_mat8x8<f32, C>();
    c = coopMultiplyAdd(a, b, c);
    coopStore(c, &data[128], 8);
}
