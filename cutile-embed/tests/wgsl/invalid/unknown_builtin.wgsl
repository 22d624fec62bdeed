//! says: unknown builtin
@fragment
fn main(@builtin(frag_coord) at: vec4<f32>) -> @location(0) vec4<f32> {
    return at;
}
