//! constants: radius=3
//! constants: radius=1, strength=0.75
//! constants:
// Overrides in several functions, and in the initial value of a private variable.
override radius: i32 = 2;
override strength: f32 = 1.0;
var<private> start: f32 = strength * 2.0;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

fn width() -> i32 {
    return radius * 2 + 1;
}

fn weigh(at: i32) -> f32 {
    return strength * f32(radius - abs(at));
}

@compute @workgroup_size(1)
fn main() {
    var sum = start;
    for (var at = -radius; at <= radius; at++) {
        sum += weigh(at);
    }
    data[0] = sum / f32(width());
}
