//! says: f16
//! features: SHADER_F16
fn main() -> f16 {
    return 1.0h;
}
