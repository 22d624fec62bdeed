// Cases with several values, a default in the middle, and a case that returns.
@group(0) @binding(0) var<storage, read_write> data: array<i32>;

fn classify(value: i32) -> i32 {
    switch value {
        case -1, 0: {
            return 10;
        }
        default: {
            return 20;
        }
        case 1, 2, 3: {
            if value == 2 {
                break;
            }
            return 30;
        }
    }
    return 40;
}

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = classify(data[id.x]);
    switch id.x % 4u {
        case 0u, default {
            sum += 1;
        }
        case 1u {
            sum += 2;
        }
    }
    data[id.x] = sum;
}
