// Inclusive prefix sum of u32 numbers, for adapters without subgroups.
//
// `scan` sums within blocks of BLOCK numbers and writes the total of each; the totals are scanned
// in turn, as often as it takes to be left with one block; `add_offsets` then adds to every number
// what lies before its block. Bindings and entry points are those of prefix_sum_subgroups.wgsl.

const BLOCK = 256u;

@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;

var<workgroup> sums: array<u32, BLOCK>;

// Hillis and Steele (1986): after the turn with `stride`, each slot has the sum of the last
// 2 · stride numbers up to it.
@compute @workgroup_size(BLOCK)
fn scan(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = group.x * BLOCK + local;
    let inside = index < arrayLength(&values);
    var sum = 0u;
    if inside {
        sum = values[index];
    }
    for (var stride = 1u; stride < BLOCK; stride *= 2u) {
        sums[local] = sum;
        workgroupBarrier();
        if local >= stride {
            sum += sums[local - stride];
        }
        // The next turn overwrites what others may still read.
        workgroupBarrier();
    }
    if inside {
        values[index] = sum;
    }
    if local == BLOCK - 1u {
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
