// The right side of && and || runs only where it has to.
@group(0) @binding(0) var<storage, read_write> data: array<i32>;

fn count(limit: i32) -> bool {
    data[0] += 1;
    return data[0] > limit;
}

@compute @workgroup_size(1)
fn main() {
    if count(1) && count(2) || count(3) {
        data[1] = 1;
    }
    let lazy = data[2] != 0 && 10 / data[2] > 3;
    let eager = (data[3] > 0) & (data[4] > 0) | (data[5] > 0);
    data[6] = select(0, 1, lazy != eager);
}
