//! says: position
@vertex
fn main(@location(0) at: vec4<f32>) -> @location(0) vec4<f32> {
    return at;
}
