// Not WGSL, and naga accepts it all the same: a derivative where control flow is not uniform.
@fragment
fn main(@location(0) value: f32) -> @location(0) vec4<f32> {
    if value > 0.5 {
        return vec4<f32>(dpdx(value));
    }
    return vec4<f32>(0.0);
}
