//! says: argument
fn twice(value: f32) -> f32 {
    return value * 2.0;
}

@compute @workgroup_size(1)
fn main() {
    let whole = 3u;
    _ = twice(whole);
}
