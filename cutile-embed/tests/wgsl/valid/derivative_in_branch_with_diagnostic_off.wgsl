// Not uniform, and said to be meant: for the module.
diagnostic(off, derivative_uniformity);

@group(0) @binding(0) var plane: texture_2d<f32>;
@group(0) @binding(1) var smooth_sampler: sampler;

@fragment
fn main(@location(0) uv: vec2<f32>) -> @location(0) vec4<f32> {
    if uv.x > 0.5 {
        return textureSample(plane, smooth_sampler, uv) * fwidth(uv.y);
    }
    return vec4<f32>(0.0);
}
