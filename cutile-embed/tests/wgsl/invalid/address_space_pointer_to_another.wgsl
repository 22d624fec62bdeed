//! says: argument
fn bump(at: ptr<function, u32>) {
    *at += 1u;
}

var<private> own: u32;

@compute @workgroup_size(1)
fn main() {
    bump(&own);
}
