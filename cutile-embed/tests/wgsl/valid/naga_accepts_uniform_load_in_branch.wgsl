// Not WGSL, and naga accepts it all the same: a uniform load that not all reach.
var<workgroup> rounds: u32;
@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32) {
    if data[index] < 32u {
        data[index] = workgroupUniformLoad(&rounds);
    }
}
