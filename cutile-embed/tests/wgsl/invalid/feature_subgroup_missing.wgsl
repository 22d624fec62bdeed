//! says: subgroup
//! same-text-as: valid/subgroup_reductions
// Every reduction and scan over a subgroup.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(64)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    let value = data[id.x];
    var sum = subgroupAdd(value) + subgroupMul(value) + subgroupMin(value) + subgroupMax(value);
    sum += subgroupAnd(value) + subgroupOr(value) + subgroupXor(value);
    sum += subgroupExclusiveAdd(value) + subgroupExclusiveMul(value);
    sum += subgroupInclusiveAdd(value) + subgroupInclusiveMul(value);
    if subgroupAll(value > 0u) || subgroupAny(value == 7u) {
        sum += 1u;
    }
    data[id.x] = sum + size + lane + subgroup * subgroups;
}
