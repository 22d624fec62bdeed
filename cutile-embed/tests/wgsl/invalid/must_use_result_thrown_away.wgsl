//! says: unused
@must_use
fn twice(value: u32) -> u32 {
    return value * 2u;
}

@compute @workgroup_size(1)
fn main() {
    twice(3u);
}
