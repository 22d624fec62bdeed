//! says: HOST_SHAREABLE
@group(0) @binding(0) var<uniform> flag: bool;

@fragment
fn main() -> @location(0) vec4<f32> {
    return vec4<f32>(f32(flag));
}
