// Sampled textures: 1d, 2d, 3d, cube, and arrays of them.
@group(0) @binding(0) var line: texture_1d<f32>;
@group(0) @binding(1) var plane: texture_2d<f32>;
@group(0) @binding(2) var planes: texture_2d_array<f32>;
@group(0) @binding(3) var volume: texture_3d<f32>;
@group(0) @binding(4) var sky: texture_cube<f32>;
@group(0) @binding(5) var skies: texture_cube_array<f32>;
@group(0) @binding(6) var linear_sampler: sampler;

@fragment
fn main(@location(0) at: vec3<f32>) -> @location(0) vec4<f32> {
    var color = textureSample(line, linear_sampler, at.x);
    color += textureSample(plane, linear_sampler, at.xy, vec2<i32>(1, -2));
    color += textureSample(planes, linear_sampler, at.xy, 3);
    color += textureSample(volume, linear_sampler, at);
    color += textureSample(sky, linear_sampler, normalize(at));
    color += textureSample(skies, linear_sampler, at, 1u);
    color += textureSampleLevel(plane, linear_sampler, at.xy, 2.0);
    color += textureSampleBias(planes, linear_sampler, at.xy, 0, -0.5);
    color += textureSampleGrad(volume, linear_sampler, at, dpdx(at), dpdy(at));
    color += textureSampleBaseClampToEdge(plane, linear_sampler, at.xy);
    return color;
}
