//! says: no definition in scope for identifier
fn main() -> f32 {
    let λλλλ = 1.0; return λλλλ * fehlt;
}
