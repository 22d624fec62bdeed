// A fragment that is thrown away, directly and by a function.
fn cut(alpha: f32) {
    if alpha < 0.1 {
        discard;
    }
}

@fragment
fn main(@location(0) color: vec4<f32>) -> @location(0) vec4<f32> {
    cut(color.a);
    if color.r > 0.9 {
        discard;
    }
    return color;
}
