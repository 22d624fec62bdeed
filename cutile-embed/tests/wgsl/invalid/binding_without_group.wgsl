//! says: needs a 'group' attribute
@binding(0) var<uniform> value: vec4<f32>;

@fragment
fn main() -> @location(0) vec4<f32> {
    return value;
}
