//! says: Accessing index 4 is out of
@compute @workgroup_size(1)
fn main() {
    var table = array<u32, 4>(1u, 2u, 3u, 4u);
    table[0] = table[4];
}
