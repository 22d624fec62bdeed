//! says: expected statement
@compute @workgroup_size(1)
fn main() {
    /* no end /* but an inner one */
}
