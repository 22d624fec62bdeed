//! says: unknown attribute
@compute @workgroup_size(1) @fastest
fn main() {}
