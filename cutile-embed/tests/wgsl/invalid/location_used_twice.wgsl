//! says: location
@fragment
fn main(@location(1) a: vec4<f32>, @location(1) b: vec4<f32>) -> @location(0) vec4<f32> {
    return a + b;
}
