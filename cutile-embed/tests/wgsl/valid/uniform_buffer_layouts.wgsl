// A uniform block whose arrays and matrices have strides of 16.
struct Light {
    direction: vec3<f32>,
    power: f32,
    color: vec4<f32>,
}

struct Block {
    lights: array<Light, 4>,
    basis: mat3x3<f32>,
    small: mat2x2<f32>,
    corner: vec2<i32>,
    count: u32,
}

@group(0) @binding(0) var<uniform> block: Block;

@fragment
fn main(@location(0) normal: vec3<f32>) -> @location(0) vec4<f32> {
    var sum = vec4<f32>(0.0);
    for (var each = 0u; each < min(block.count, 4u); each++) {
        let light = block.lights[each];
        sum += light.color * light.power * max(dot(block.basis * normal, light.direction), 0.0);
    }
    return sum + vec4<f32>(block.small * vec2<f32>(block.corner), 0.0, 0.0);
}
