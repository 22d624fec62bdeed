//! features: DUAL_SOURCE_BLENDING
// Two colors for one target.
enable dual_source_blending;

struct Both {
    @location(0) @blend_src(0) color: vec4<f32>,
    @location(0) @blend_src(1) blend: vec4<f32>,
}

@fragment
fn main(@location(0) color: vec4<f32>) -> Both {
    return Both(color, vec4<f32>(color.a));
}
