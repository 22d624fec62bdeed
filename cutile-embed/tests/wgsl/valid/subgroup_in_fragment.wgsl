//! features: SUBGROUP
// Subgroup operations beside derivatives.
@fragment
fn main(@location(0) uv: vec2<f32>) -> @location(0) vec4<f32> {
    let mean = subgroupAdd(uv.x) * 0.25;
    let change = dpdx(uv.x);
    return vec4<f32>(mean, quadSwapX(uv.y), change, 1.0);
}
