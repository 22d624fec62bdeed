// Not WGSL, and naga accepts it all the same: a barrier that not all reach.
var<workgroup> shared_value: u32;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32) {
    if index < 32u {
        workgroupBarrier();
    }
    shared_value = index;
}
