//! says: no definition in scope for identifier
fn main() -> f32 {
    return missing * 2.0;
}
