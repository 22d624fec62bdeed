//! features: MULTIVIEW
// Which view is drawn.
struct Views {
    matrices: array<mat4x4<f32>, 2>,
}

@group(0) @binding(0) var<uniform> views: Views;

@vertex
fn main(@location(0) at: vec4<f32>, @builtin(view_index) view: u32) -> @builtin(position) vec4<f32> {
    return views.matrices[view] * at;
}
