//! says: return
fn main() -> u32 {
    return 1.5;
}
