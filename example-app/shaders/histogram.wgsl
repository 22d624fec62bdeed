// How many numbers of [0, 1) fall into each of BINS equal parts of it.
//
// A workgroup counts in its own memory first: invocations that meet in a bin wait for each other
// there, which is near, and one addition a bin and workgroup is all that reaches the buffer.

override BINS: u32 = 64u;

const INVOCATIONS = 256u;
// Numbers an invocation counts: enough for the additions to the buffer to be few beside them.
const EACH = 16u;

@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read_write> bins: array<atomic<u32>>;

var<workgroup> local_bins: array<atomic<u32>, BINS>;

@compute @workgroup_size(INVOCATIONS)
fn count(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    for (var bin = local; bin < BINS; bin += INVOCATIONS) {
        atomicStore(&local_bins[bin], 0u);
    }
    workgroupBarrier();
    let start = group.x * INVOCATIONS * EACH;
    for (var i = 0u; i < EACH; i++) {
        let index = start + i * INVOCATIONS + local;
        if index < arrayLength(&values) {
            let bin = min(u32(values[index] * f32(BINS)), BINS - 1u);
            atomicAdd(&local_bins[bin], 1u);
        }
    }
    workgroupBarrier();
    for (var bin = local; bin < BINS; bin += INVOCATIONS) {
        let counted = atomicLoad(&local_bins[bin]);
        if counted > 0u {
            atomicAdd(&bins[bin], counted);
        }
    }
}
