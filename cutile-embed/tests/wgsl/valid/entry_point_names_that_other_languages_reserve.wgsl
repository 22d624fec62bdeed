//! entry-points: kernel
//! entry-points: technique, half, vertex
//! entry-points:
// Names that are keywords of Metal, HLSL or GLSL, or of WGSL's own attributes.
@group(0) @binding(0) var<storage, read_write> float4: array<u32>;

@compute @workgroup_size(1)
fn kernel() {
    float4[0] = 1u;
}

@compute @workgroup_size(1)
fn technique() {
    float4[1] = 2u;
}

@compute @workgroup_size(1)
fn half() {
    float4[2] = 3u;
}

@vertex
fn vertex() -> @builtin(position) vec4<f32> {
    return vec4<f32>(0.0, 0.0, 0.0, 1.0);
}

@fragment
fn fragment() -> @location(0) vec4<f32> {
    return vec4<f32>(1.0);
}

@compute @workgroup_size(2)
fn compute() {
    float4[3] = 4u;
}
