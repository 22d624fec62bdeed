// Gathers of each component, with offset, layer and cube.
@group(0) @binding(0) var plane: texture_2d<f32>;
@group(0) @binding(1) var layers: texture_2d_array<f32>;
@group(0) @binding(2) var sky: texture_cube<f32>;
@group(0) @binding(3) var depth: texture_depth_2d;
@group(0) @binding(4) var nearest: sampler;

@fragment
fn main(@location(0) at: vec2<f32>) -> @location(0) vec4<f32> {
    let red = textureGather(0, plane, nearest, at);
    let green = textureGather(1, plane, nearest, at, vec2<i32>(1, 1));
    let blue = textureGather(2, layers, nearest, at, 4);
    let alpha = textureGather(3, sky, nearest, vec3<f32>(at, 1.0));
    return red + green + blue + alpha + textureGather(depth, nearest, at);
}
