//! says: store
@group(0) @binding(0) var plane: texture_storage_2d<rgba8unorm, read>;

@compute @workgroup_size(1)
fn main() {
    textureStore(plane, vec2<i32>(0), vec4<f32>(1.0));
}
