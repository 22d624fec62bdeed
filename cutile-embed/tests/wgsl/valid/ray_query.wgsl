//! features: EXPERIMENTAL_RAY_QUERY
// A ray that is traced inline.
enable wgpu_ray_query;

@group(0) @binding(0) var scene: acceleration_structure;
@group(0) @binding(1) var<storage, read_write> hits: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var query: ray_query;
    let ray = RayDesc(
        RAY_FLAG_TERMINATE_ON_FIRST_HIT, 0xffu, 0.01, 100.0,
        vec3<f32>(f32(id.x), 0.0, 0.0), vec3<f32>(0.0, 0.0, 1.0),
    );
    rayQueryInitialize(&query, scene, ray);
    while rayQueryProceed(&query) {}
    let hit = rayQueryGetCommittedIntersection(&query);
    hits[id.x] = select(-1.0, hit.t, hit.kind != RAY_QUERY_INTERSECTION_NONE);
}
