//! says: expected
fn main() -> f32 {
    return 1.0 $ 2.0;
}
