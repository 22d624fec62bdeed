// Derivatives of each kind and axis.
@fragment
fn main(@location(0) uv: vec2<f32>, @location(1) depth: f32) -> @location(0) vec4<f32> {
    let plain = vec2<f32>(dpdx(depth), dpdy(depth));
    let coarse = dpdxCoarse(uv) + dpdyCoarse(uv);
    let fine = dpdxFine(uv) + dpdyFine(uv);
    let width = fwidth(uv) + fwidthCoarse(uv) + fwidthFine(uv);
    return vec4<f32>(plain + coarse, fine + width);
}
