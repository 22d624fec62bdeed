//! says: workgroup_size
const SIZE = -4;
@compute @workgroup_size(SIZE)
fn main() {}
