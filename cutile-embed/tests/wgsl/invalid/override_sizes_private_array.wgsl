//! says: override
override size: u32 = 4u;
var<private> table: array<f32, size>;

@compute @workgroup_size(1)
fn main() {
    table[0] = 1.0;
}
