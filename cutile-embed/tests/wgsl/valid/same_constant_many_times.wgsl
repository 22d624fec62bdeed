// Equal literals, composites and zero values, which backends share.
const ORIGIN = vec3<f32>(0.0, 0.0, 0.0);
const ALSO_ORIGIN = vec3<f32>();
var<private> first: vec3<f32> = ORIGIN;
var<private> second: vec3<f32> = ALSO_ORIGIN;

@group(0) @binding(0) var<storage, read_write> data: array<vec3<f32>>;

@compute @workgroup_size(1)
fn main() {
    data[0] = ORIGIN + first;
    data[1] = ALSO_ORIGIN + second;
    data[2] = vec3<f32>(0.0, 0.0, 0.0) + vec3<f32>();
    data[3] = vec3(0.0) + ORIGIN * 0.0;
}
