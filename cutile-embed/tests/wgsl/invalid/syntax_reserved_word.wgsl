//! says: reserved
fn main() -> f32 {
    let class = 1.0;
    return class;
}
