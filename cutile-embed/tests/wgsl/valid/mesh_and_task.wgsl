//! features: EXPERIMENTAL_MESH_SHADER
// A task that says how many meshes there are, a mesh that emits triangles, and their fragments.
enable wgpu_mesh_shader;

struct Payload {
    shade: f32,
}

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) color: vec4<f32>,
}

struct Triangle {
    @builtin(triangle_indices) corners: vec3<u32>,
    @builtin(cull_primitive) cull: bool,
    @per_primitive @location(1) tint: vec4<f32>,
}

struct Mesh {
    @builtin(vertices) vertices: array<Corner, 3>,
    @builtin(primitives) primitives: array<Triangle, 1>,
    @builtin(vertex_count) vertex_count: u32,
    @builtin(primitive_count) primitive_count: u32,
}

var<task_payload> payload: Payload;
var<workgroup> output: Mesh;

@task @payload(payload) @workgroup_size(1)
fn plan() -> @builtin(mesh_task_size) vec3<u32> {
    payload.shade = 0.5;
    return vec3<u32>(1u, 1u, 1u);
}

@mesh(output) @payload(payload) @workgroup_size(1)
fn emit_mesh() {
    output.vertex_count = 3u;
    output.primitive_count = 1u;
    for (var at = 0u; at < 3u; at++) {
        output.vertices[at].position = vec4<f32>(f32(at), f32(at & 1u), 0.0, 1.0);
        output.vertices[at].color = vec4<f32>(payload.shade);
    }
    output.primitives[0].corners = vec3<u32>(0u, 1u, 2u);
    output.primitives[0].cull = payload.shade < 0.0;
    output.primitives[0].tint = vec4<f32>(1.0);
}

@fragment
fn shade(
    @location(0) color: vec4<f32>,
    @per_primitive @location(1) tint: vec4<f32>,
) -> @location(0) vec4<f32> {
    return color * tint;
}
