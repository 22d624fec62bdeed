//! says: cannot assign to this expression
@compute @workgroup_size(1)
fn main() {
    let value = 1u;
    value = 2u;
}
