//! features: PRIMITIVE_INDEX
// Which triangle a fragment is of.
enable primitive_index;

@fragment
fn main(@builtin(primitive_index) index: u32) -> @location(0) vec4<f32> {
    return vec4<f32>(f32(index & 255u) / 255.0);
}
