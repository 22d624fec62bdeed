//! features: SHADER_DRAW_INDEX
// Which draw of a multi-draw this is.
enable draw_index;

@vertex
fn main(@builtin(draw_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(f32(index), 0.0, 0.0, 1.0);
}
