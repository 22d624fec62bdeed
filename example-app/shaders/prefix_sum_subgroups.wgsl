// Inclusive prefix sum of u32 numbers, for adapters with subgroups.
//
// As prefix_sum.wgsl, with the same bindings and entry points; within a block, invocations of a
// subgroup add among themselves, without memory and barriers, and what is left to add is one number
// a subgroup. WGSL asks for `enable subgroups;` here, which naga 30 does not know: it takes the
// operations without it, where the feature SUBGROUP is declared.

const BLOCK = 256u;

@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;

// One slot a subgroup, for subgroups of one invocation and more.
var<workgroup> subgroup_totals: array<u32, BLOCK>;

@compute @workgroup_size(BLOCK)
fn scan(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    // Which number an invocation has follows from its place among the subgroups: nothing promises
    // that they divide the workgroup by local_invocation_index.
    let index = group.x * BLOCK + subgroup * size + lane;
    let inside = index < arrayLength(&values);
    var value = 0u;
    if inside {
        value = values[index];
    }
    var sum = subgroupInclusiveAdd(value);
    if lane == size - 1u {
        subgroup_totals[subgroup] = sum;
    }
    workgroupBarrier();
    for (var before = 0u; before < subgroup; before++) {
        sum += subgroup_totals[before];
    }
    if inside {
        values[index] = sum;
    }
    if subgroup == subgroups - 1u && lane == size - 1u {
        totals[group.x] = sum;
    }
}

@compute @workgroup_size(BLOCK)
fn add_offsets(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = group.x * BLOCK + local;
    // Nothing lies before the first block.
    if group.x > 0u && index < arrayLength(&values) {
        values[index] += totals[group.x - 1u];
    }
}
