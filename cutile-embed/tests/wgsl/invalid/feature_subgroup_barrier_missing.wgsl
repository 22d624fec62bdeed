//! says: capabilit
//! features: SUBGROUP
//! same-text-as: valid/subgroup_barrier
// A barrier of the subgroup alone.
var<workgroup> tile: array<u32, 32>;

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) index: u32) {
    tile[index] = data[index];
    subgroupBarrier();
    data[index] = tile[31u - index];
}
