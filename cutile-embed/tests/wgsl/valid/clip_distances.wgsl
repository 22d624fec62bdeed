//! features: CLIP_DISTANCES
// Planes that cut a triangle.
enable clip_distances;

struct Out {
    @builtin(position) position: vec4<f32>,
    @builtin(clip_distances) planes: array<f32, 2>,
}

@vertex
fn main(@location(0) at: vec4<f32>) -> Out {
    var out: Out;
    out.position = at;
    out.planes[0] = at.x;
    out.planes[1] = 1.0 - at.y;
    return out;
}
