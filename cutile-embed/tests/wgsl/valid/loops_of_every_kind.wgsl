// loop with continuing and break if, while, for, nested, with early exits.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;

@compute @workgroup_size(1)
fn main() {
    var count = 0u;
    loop {
        if count == 3u {
            continue;
        }
        data[count] = count;
        continuing {
            count += 1u;
            break if count >= 10u;
        }
    }
    while count > 0u {
        count--;
        for (var inner = 0u; inner < count; inner++) {
            if data[inner] > 5u {
                break;
            }
            if inner % 2u == 0u {
                continue;
            }
            data[inner] += 1u;
        }
    }
    loop {
        break;
    }
    for (;;) {
        if data[0] > 100u {
            return;
        }
        data[0] += 7u;
    }
}
