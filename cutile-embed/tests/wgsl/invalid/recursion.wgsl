//! says: cyclic
fn down(value: u32) -> u32 {
    if value == 0u {
        return 0u;
    }
    return across(value - 1u);
}

fn across(value: u32) -> u32 {
    return down(value);
}

@compute @workgroup_size(1)
fn main() {
    _ = down(3u);
}
