//! says: binding
@group(0) @binding(0) var<private> value: u32;

@compute @workgroup_size(1)
fn main() {
    value = 1u;
}
