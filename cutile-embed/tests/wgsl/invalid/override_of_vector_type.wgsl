//! says: override
override size: vec2<u32> = vec2<u32>(1u, 2u);

@compute @workgroup_size(1)
fn main() {
    _ = size.x;
}
