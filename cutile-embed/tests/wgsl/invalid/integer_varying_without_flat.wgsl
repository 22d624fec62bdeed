//! says: `@interpolate(flat)
@fragment
fn main(@location(0) @interpolate(linear) index: u32) -> @location(0) vec4<f32> {
    return vec4<f32>(f32(index));
}
