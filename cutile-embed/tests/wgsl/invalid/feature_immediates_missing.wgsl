//! says: capabilit
//! same-text-as: valid/immediates
// Values that are set with a draw, without a buffer.
struct Settings {
    offset: vec2<f32>,
    layer: u32,
}

var<immediate> settings: Settings;

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    return vec4<f32>(at + settings.offset, f32(settings.layer), 1.0);
}
