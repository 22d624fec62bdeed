//! says: expected
@compute @workgroup_size(1)
fn main() {
    if true {
        return;
