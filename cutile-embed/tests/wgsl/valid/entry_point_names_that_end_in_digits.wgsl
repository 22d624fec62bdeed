//! entry-points: pass2
//! entry-points: pass1, pass2
//! entry-points:
// A name that ends in a digit, one that ends in a number of its own, and a function beside them.
@group(0) @binding(0) var<storage, read_write> data1: array<u32>;

fn step_1() -> u32 {
    return data1[1] + 1u;
}

@compute @workgroup_size(1)
fn pass1() {
    data1[0] = step_1();
}

@compute @workgroup_size(1)
fn pass2() {
    data1[0] = step_1() * 2u;
}

@compute @workgroup_size(1)
fn pass_2() {
    data1[0] = 5u;
}
