//! says: expected
// An escape and a bell before the fault, and a letter of two bytes: é.
fn main() -> f32 {
    return 1.0  2.0; // é
}
