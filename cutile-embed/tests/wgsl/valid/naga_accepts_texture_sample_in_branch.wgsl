// Not WGSL, and naga accepts it all the same: a sample where control flow is not uniform.
@group(0) @binding(0) var plane: texture_2d<f32>;
@group(0) @binding(1) var smooth_sampler: sampler;

fn sample_if(value: f32) -> vec4<f32> {
    if value > 0.5 {
        return textureSample(plane, smooth_sampler, vec2<f32>(value));
    }
    return vec4<f32>(0.0);
}

@fragment
fn main(@location(0) value: f32) -> @location(0) vec4<f32> {
    return sample_if(value);
}
