//! says: size
struct List {
    items: array<f32>,
    length: u32,
}

@group(0) @binding(0) var<storage, read> list: List;

@compute @workgroup_size(1)
fn main() {
    _ = list.length;
}
