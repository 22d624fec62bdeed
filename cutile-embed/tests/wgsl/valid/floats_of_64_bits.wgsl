//! features: SHADER_F64
// Double precision.
@group(0) @binding(0) var<storage, read_write> data: array<f64>;
@group(0) @binding(1) var<uniform> scale: vec2<f64>;

const THIRD: f64 = 0.333333333333333333lf;

@compute @workgroup_size(1)
fn main() {
    let sum = data[0] * scale.x + f64(1.5) - THIRD;
    data[1] = select(sum, -sum, sum > 0.1lf);
    data[2] = f64(f32(data[1]) * 2.0) + f64(7u);
    data[3] = abs(data[2]) + floor(data[1]);
}
