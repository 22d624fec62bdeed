// Floats: trigonometry, exponents, geometry, interpolation, parts of a number.
@group(0) @binding(0) var<storage, read_write> data: array<vec4<f32>>;

@compute @workgroup_size(1)
fn main() {
    let v = data[0];
    var sum = sin(v) + cos(v) + tan(v) + asin(v) + acos(v) + atan(v) + atan2(v, v.yxwz);
    sum += sinh(v) + cosh(v) + tanh(v) + asinh(v) + acosh(v) + atanh(v);
    sum += exp(v) + exp2(v) + log(v) + log2(v) + pow(v, vec4<f32>(2.5)) + sqrt(v) + inverseSqrt(v);
    sum += floor(v) + ceil(v) + round(v) + trunc(v) + fract(v) + abs(v) + sign(v) + saturate(v);
    sum += mix(v, v.wzyx, 0.5) + step(v, sum) + smoothstep(v, sum, v) + fma(v, v, v);
    sum += clamp(v, vec4<f32>(0.0), vec4<f32>(1.0)) + radians(v) + degrees(v) + normalize(v);
    sum += reflect(v, v) + refract(v, v, 1.5) + faceForward(v, v, v);
    sum.x += length(v) + distance(v, sum) + dot(v, sum) + cross(v.xyz, sum.xyz).z;
    let parts = modf(v);
    let scaled = frexp(v.x);
    data[1] = sum + parts.fract + parts.whole + ldexp(scaled.fract, scaled.exp + 1);
    data[2] = select(v, sum, v < sum) + vec4<f32>(select(1.0, 2.0, all(v == sum)));
}
