//! features: SHADER_F16
// Half precision in scalars, vectors, matrices and buffers.
enable f16;

struct Halves {
    scalar: f16,
    pair: vec2<f16>,
    basis: mat2x2<f16>,
}

@group(0) @binding(0) var<storage, read_write> data: array<Halves>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let found = data[id.x];
    let turned = found.basis * found.pair;
    data[id.x].scalar = dot(turned, vec2<f16>(0.5h, 1.0h)) + f16(id.x);
    data[id.x].pair = clamp(turned, vec2<f16>(0.0h), vec2<f16>(1.0h));
}
