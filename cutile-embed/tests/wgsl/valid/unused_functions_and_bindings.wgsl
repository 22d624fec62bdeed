//! entry-points: main
//! entry-points:
// What no entry point reaches: functions, bindings, constants, types.
struct Unused {
    value: vec4<f32>,
}

const UNUSED: f32 = 3.0;
@group(0) @binding(0) var<storage, read_write> used: array<u32>;
@group(0) @binding(1) var<uniform> unused_uniform: Unused;
@group(3) @binding(9) var unused_texture: texture_2d<f32>;
var<workgroup> unused_shared: array<u32, 64>;
var<private> unused_private: vec2<f32>;

fn inner(value: f32) -> f32 {
    return value + UNUSED;
}

fn unused() -> f32 {
    return inner(unused_uniform.value.x);
}

@compute @workgroup_size(1)
fn main() {
    used[0] = 7u;
}
