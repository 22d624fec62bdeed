//! entry-points: simulate
//! entry-points: draw_vertex, draw_fragment
//! entry-points:
// A simulation, and the two stages that draw it.
struct Particle {
    at: vec2<f32>,
    speed: vec2<f32>,
}

@group(0) @binding(0) var<storage, read_write> moving: array<Particle>;
@group(0) @binding(1) var<storage, read> drawn: array<Particle>;

@compute @workgroup_size(128)
fn simulate(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&moving) {
        moving[id.x].at += moving[id.x].speed * 0.01;
    }
}

@vertex
fn draw_vertex(@builtin(instance_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4<f32>(drawn[index].at, 0.0, 1.0);
}

@fragment
fn draw_fragment() -> @location(0) vec4<f32> {
    return vec4<f32>(1.0);
}
