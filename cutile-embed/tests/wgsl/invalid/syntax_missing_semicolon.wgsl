//! says: expected
@compute @workgroup_size(1)
fn main() {
    var value = 1u
    value += 2u;
}
