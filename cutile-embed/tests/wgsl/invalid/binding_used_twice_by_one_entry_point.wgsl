//! says: bindings
@group(0) @binding(0) var<uniform> first: vec4<f32>;
@group(0) @binding(0) var<uniform> second: vec4<f32>;

@fragment
fn main() -> @location(0) vec4<f32> {
    return first + second;
}
