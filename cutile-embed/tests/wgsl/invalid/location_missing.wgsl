//! says: binding
@fragment
fn main(color: vec4<f32>) -> @location(0) vec4<f32> {
    return color;
}
