// A bind group of each kind of resource, with holes in the numbers.
struct Camera {
    view: mat4x4<f32>,
    eye: vec3<f32>,
}

struct Lights {
    count: u32,
    all: array<vec4<f32>>,
}

@group(0) @binding(0) var<uniform> camera: Camera;
@group(0) @binding(3) var<storage, read> lights: Lights;
@group(2) @binding(0) var colors: texture_2d<f32>;
@group(2) @binding(1) var smooth_: sampler;
@group(2) @binding(2) var shadows: texture_depth_2d_array;
@group(2) @binding(3) var compare: sampler_comparison;
@group(2) @binding(4) var ids: texture_2d<u32>;
@group(2) @binding(5) var table: texture_3d<f32>;
@group(2) @binding(9) var output: texture_storage_2d<rgba8unorm, write>;
@group(2) @binding(11) var unused: texture_cube<f32>;

struct Varying {
    @builtin(position) position: vec4<f32>,
    @location(0) uv: vec2<f32>,
}

@vertex
fn vsMain(@location(0) position: vec3<f32>, @location(1) uv: vec2<f32>) -> Varying {
    return Varying(camera.view * vec4<f32>(position, 1.0), uv);
}

@fragment
fn fsMain(in: Varying) -> @location(0) vec4<f32> {
    let lit = textureSampleCompare(shadows, compare, in.uv, 0, 0.5);
    let id = textureLoad(ids, vec2<i32>(0), 0).x;
    let row = textureLoad(table, vec3<i32>(0), 0);
    var light = vec4<f32>(f32(id) + camera.eye.x);
    for (var i = 0u; i < lights.count; i++) { light += lights.all[i]; }
    return textureSample(colors, smooth_, in.uv) * lit * light * row;
}

@compute @workgroup_size(8, 8)
fn copy(@builtin(global_invocation_id) at: vec3<u32>) {
    textureStore(output, at.xy, textureLoad(colors, at.xy, 0));
}
