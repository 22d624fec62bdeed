// Every atomic operation, on both types, in both address spaces.
struct Counters {
    total: atomic<u32>,
    low: atomic<i32>,
    bins: array<atomic<u32>, 16>,
}

@group(0) @binding(0) var<storage, read_write> counters: Counters;
var<workgroup> local_bins: array<atomic<u32>, 16>;
var<workgroup> local_low: atomic<i32>;

@compute @workgroup_size(16)
fn main(@builtin(local_invocation_index) index: u32) {
    atomicStore(&local_bins[index], 0u);
    workgroupBarrier();
    atomicAdd(&local_bins[(index * 5u) % 16u], 2u);
    atomicSub(&local_bins[index], 1u);
    let low = atomicMin(&local_low, -i32(index));
    atomicMax(&counters.low, low);
    atomicAnd(&counters.bins[0], 0xffu);
    atomicOr(&counters.bins[1], index);
    atomicXor(&counters.bins[2], index);
    workgroupBarrier();
    let before = atomicExchange(&counters.bins[index], atomicLoad(&local_bins[index]));
    let swapped = atomicCompareExchangeWeak(&counters.total, before, before + 1u);
    if !swapped.exchanged {
        atomicAdd(&counters.total, swapped.old_value);
    }
}
