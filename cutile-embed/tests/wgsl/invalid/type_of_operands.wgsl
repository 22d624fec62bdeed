//! says: type
@group(0) @binding(0) var<storage, read_write> data: array<vec3<f32>>;

@compute @workgroup_size(1)
fn main() {
    data[0] = data[1] + vec2<f32>(1.0, 2.0);
}
