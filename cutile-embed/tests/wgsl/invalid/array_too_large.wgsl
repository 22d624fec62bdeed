//! says: large
var<private> table: array<array<array<u32, 65536>, 65536>, 16>;

@compute @workgroup_size(1)
fn main() {
    table[0][0][0] = 1u;
}
