// Not uniform, and said to be meant: for one function, as a warning.
@diagnostic(warning, derivative_uniformity)
fn slope(value: f32) -> f32 {
    if value > 0.5 {
        return dpdx(value);
    }
    return 0.0;
}

@fragment
fn main(@location(0) value: f32) -> @location(0) vec4<f32> {
    return vec4<f32>(slope(value));
}
