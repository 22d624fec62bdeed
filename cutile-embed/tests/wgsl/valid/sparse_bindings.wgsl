// Binding and group numbers with holes.
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
@group(0) @binding(200) var<uniform> scale: vec4<f32>;
@group(2) @binding(17) var<storage, read> input: array<f32>;
@group(7) @binding(999) var table: texture_2d<f32>;

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let texel = textureLoad(table, vec2<i32>(i32(id.x), 0), 0);
    result[id.x] = input[id.x] * scale.x + texel.r;
}
