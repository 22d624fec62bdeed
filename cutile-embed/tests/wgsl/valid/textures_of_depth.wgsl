// Depth textures, with comparison samplers and without.
@group(0) @binding(0) var shadow: texture_depth_2d;
@group(0) @binding(1) var cascades: texture_depth_2d_array;
@group(0) @binding(2) var around: texture_depth_cube;
@group(0) @binding(3) var lights: texture_depth_cube_array;
@group(0) @binding(4) var compare: sampler_comparison;
@group(0) @binding(5) var plain: sampler;

@fragment
fn main(@location(0) at: vec3<f32>) -> @location(0) vec4<f32> {
    var lit = textureSampleCompare(shadow, compare, at.xy, at.z);
    lit += textureSampleCompareLevel(cascades, compare, at.xy, 2, at.z);
    lit += textureSampleCompare(around, compare, at, 0.5);
    lit += textureSampleCompare(lights, compare, at, 3, 0.25);
    lit += textureSample(shadow, plain, at.xy);
    let four = textureGatherCompare(shadow, compare, at.xy, at.z);
    let stored = textureLoad(cascades, vec2<i32>(at.xy), 1, 0);
    return four * lit + vec4<f32>(stored);
}
