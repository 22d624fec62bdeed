// Structures in structures, arrays of matrices, every shape of matrix.
struct Material {
    color: vec3<f32>,
    roughness: f32,
    layers: array<vec4<f32>, 3>,
}

struct Object {
    world: mat4x4<f32>,
    normal: mat3x3<f32>,
    tall: mat2x4<f32>,
    wide: mat4x2<f32>,
    bones: array<mat4x3<f32>, 2>,
    material: Material,
}

struct Scene {
    camera: mat4x4<f32>,
    objects: array<Object>,
}

@group(0) @binding(0) var<storage, read> scene: Scene;
@group(0) @binding(1) var<storage, read_write> result: array<vec4<f32>>;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let object = scene.objects[id.x].material;
    let at = scene.camera * scene.objects[id.x].world[3];
    let skin = scene.objects[id.x].bones[id.y & 1u] * at;
    let turned = transpose(scene.objects[id.x].normal) * skin;
    let four = scene.objects[id.x].tall * (scene.objects[id.x].wide * at);
    let size = determinant(scene.objects[id.x].normal);
    result[id.x] = object.layers[1] + vec4<f32>(turned * object.color, object.roughness) + four * size;
}
