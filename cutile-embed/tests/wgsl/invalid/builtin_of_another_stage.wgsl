//! says: not available
@fragment
fn main(@builtin(local_invocation_id) id: vec3<u32>) -> @location(0) vec4<f32> {
    return vec4<f32>(vec3<f32>(id), 1.0);
}
