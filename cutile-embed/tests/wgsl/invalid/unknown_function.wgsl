//! says: no definition in scope for identifier
fn main() -> f32 {
    return lerp(1.0, 2.0, 0.5);
}
