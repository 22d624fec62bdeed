//! constants: gain=0.1
//! constants: gain=-340282346638528859811704183484516925440
//! constants:
// A float: 0.1 is not representable, and the rounding is naga's.
override gain: f32 = 1.5;
override floor_level: f32 = -0.0;

@group(0) @binding(0) var<storage, read_write> data: array<f32>;

@compute @workgroup_size(1)
fn main() {
    data[0] = max(data[0] * gain, floor_level);
}
