//! constants: 7=3, 1200=0.5
//! constants: 7=9
//! constants:
// Overrides that are known by numbers, among one that is known by name.
@id(7) override taps: u32 = 5u;
@id(1200) override weight: f32 = 0.25;
override plain: f32 = 1.0;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(1)
fn main() {
    var sum = 0.0;
    for (var tap = 0u; tap < taps; tap += 1u) {
        sum += data[tap] * weight;
    }
    data[0] = sum * plain;
}
