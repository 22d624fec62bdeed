//! says: id
@id(3) override first: u32 = 1u;
@id(3) override second: u32 = 2u;

@compute @workgroup_size(1)
fn main() {
    _ = first + second;
}
