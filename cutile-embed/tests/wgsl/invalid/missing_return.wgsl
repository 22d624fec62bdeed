//! says: return
fn sign_of(value: f32) -> f32 {
    if value > 0.0 {
        return 1.0;
    }
}
