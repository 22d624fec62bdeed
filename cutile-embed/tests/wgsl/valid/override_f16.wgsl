//! features: SHADER_F16
//! constants: gain=65504
//! constants: gain=0.333251953125
//! constants:
// An override of half precision.
enable f16;
override gain: f16 = 2.0h;

@group(0) @binding(0) var<storage, read_write> data: array<f16>;

@compute @workgroup_size(1)
fn main() {
    data[0] = data[0] * gain;
}
