//! says: workgroup size is missing
@compute
fn main() {}
