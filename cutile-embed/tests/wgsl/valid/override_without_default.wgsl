//! constants: size=64, 3=2.5
//! refused:
//! refused: size=64
// Overrides that have to get a value.
override size: u32;
@id(3) override ratio: f32;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(size)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] *= ratio;
}
