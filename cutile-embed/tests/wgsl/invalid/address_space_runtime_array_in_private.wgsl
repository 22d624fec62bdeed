//! says: type
var<private> table: array<f32>;

@compute @workgroup_size(1)
fn main() {
    table[0] = 1.0;
}
