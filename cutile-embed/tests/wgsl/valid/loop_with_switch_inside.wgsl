// break and continue mean different things in a switch in a loop.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(1)
fn main() {
    var at = 0u;
    for (var round = 0u; round < 20u; round++) {
        switch data[at] {
            case 0u: {
                continue;
            }
            case 1u: {
                at = at + 1u;
                break;
            }
            default: {
                at = round;
            }
        }
        data[at] ^= round;
    }
}
