// Assertions that hold, of module and function.
const TILE = 16;
const_assert TILE % 4 == 0;
const_assert(TILE * TILE <= 256);

@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(TILE)
fn main(@builtin(local_invocation_index) index: u32) {
    const quarter = TILE / 4;
    const_assert quarter == 4;
    data[index] = index / u32(quarter);
}
