//! features: SHADER_I16
// 16-bit integers in buffers and arithmetic.
enable wgpu_int16;

@group(0) @binding(0) var<storage, read_write> short: array<i16>;
@group(0) @binding(1) var<storage, read_write> natural: array<vec2<u16>>;

@compute @workgroup_size(1)
fn main() {
    short[0] = short[1] * i16(3) + i16(-7);
    natural[0] = natural[1] + vec2<u16>(u16(5), u16(6));
    short[2] = i16(natural[0].x);
}
