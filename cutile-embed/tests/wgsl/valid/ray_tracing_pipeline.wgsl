//! features: EXPERIMENTAL_RAY_TRACING_PIPELINES
// The stages of a ray tracing pipeline.
enable wgpu_ray_tracing_pipeline;

struct Payload {
    color: vec4<f32>,
}

var<ray_payload> sent: Payload;
var<incoming_ray_payload> received: Payload;
@group(0) @binding(0) var scene: acceleration_structure;

@ray_generation
fn generate(@builtin(ray_invocation_id) id: vec3<u32>) {
    let at = vec3<f32>(id);
    traceRay(scene, RayDesc(0u, 0xffu, 0.01, 100.0, at, vec3<f32>(0.0, 0.0, 1.0)), &sent);
}

@closest_hit @incoming_payload(received)
fn hit() {
    received.color = vec4<f32>(1.0);
}

@miss @incoming_payload(received)
fn missed() {
    received.color = vec4<f32>();
}
