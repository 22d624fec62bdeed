//! says: atomic
@group(0) @binding(0) var<storage, read_write> sum: atomic<f32>;

@compute @workgroup_size(1)
fn main() {
    atomicAdd(&sum, 1.0);
}
