// Functions and types of the language, taken as names of one's own.
@group(0) @binding(0) var<storage, read_write> result: array<f32>;

fn step(edge: f32, x: f32) -> f32 {
    return edge * 10.0 + x;
}

@compute @workgroup_size(1)
fn main() {
    let max = 3.0;
    var length = step(max, 1.0);
    let dot = length * 2.0;
    length += dot;
    result[0] = length;
}
