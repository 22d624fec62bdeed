//! says: condition
@compute @workgroup_size(1)
fn main() {
    if 1u {
        return;
    }
}
