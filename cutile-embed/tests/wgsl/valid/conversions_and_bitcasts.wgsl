// From each scalar type to each, and vectors of them.
@group(0) @binding(0) var<storage, read_write> floats: array<vec3<f32>>;
@group(0) @binding(1) var<storage, read_write> words: array<vec3<u32>>;
@group(0) @binding(2) var<storage, read_write> whole: array<vec3<i32>>;

@compute @workgroup_size(1)
fn main() {
    let f = floats[0];
    words[0] = vec3<u32>(f) + bitcast<vec3<u32>>(f) + vec3<u32>(f > vec3<f32>(0.0));
    whole[0] = vec3<i32>(f) + bitcast<vec3<i32>>(words[1]) + vec3<i32>(vec3<bool>(words[1]));
    floats[1] = vec3<f32>(whole[0]) + vec3<f32>(words[0]) + bitcast<vec3<f32>>(whole[1]);
    let flag = bool(words[0].x) && bool(f.x) || !bool(whole[0].y);
    floats[2] = vec3<f32>(f32(flag), f32(u32(flag)), f32(i32(flag)));
}
