//! says: initializer
var<workgroup> count: u32 = 3u;

@compute @workgroup_size(1)
fn main() {
    count += 1u;
}
