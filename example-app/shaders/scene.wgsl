// A lit scene: spheres that melt into each other over a chequered floor, found by marching along
// distances, with a sun, its soft shadow, occlusion, and one reflection. src/shaders/scene/
// reference.rs is the same in Rust, function by function: who changes one changes the other.

// Samples of a pixel along each axis: edges are smooth from 2 on.
override SAMPLES: u32 = 2u;

struct View {
    // Where the camera is, and the height of half the picture at distance 1 from it.
    eye: vec3<f32>,
    half_height: f32,
    // What it looks at.
    at: vec3<f32>,
    // Unit vector towards the sun.
    sun: vec3<f32>,
    // Pixels of the picture.
    size: vec2<f32>,
}

struct Sphere {
    center: vec3<f32>,
    radius: f32,
    color: vec3<f32>,
    // How much of what is around it shows in it, looked at straight.
    mirror: f32,
}

struct Surface {
    color: vec3<f32>,
    mirror: f32,
}

@group(0) @binding(0) var<uniform> view: View;

const SPHERE_COUNT = 5u;
const SPHERES = array<Sphere, SPHERE_COUNT>(
    Sphere(vec3(-0.55, 0.80, 0.00), 0.80, vec3(0.85, 0.16, 0.10), 0.06),
    Sphere(vec3(0.55, 0.50, 0.42), 0.50, vec3(0.95, 0.62, 0.10), 0.05),
    Sphere(vec3(1.85, 0.70, -0.75), 0.70, vec3(0.80, 0.82, 0.86), 0.55),
    Sphere(vec3(-2.05, 0.45, 0.75), 0.45, vec3(0.10, 0.45, 0.62), 0.08),
    Sphere(vec3(0.35, 0.24, 1.55), 0.24, vec3(0.22, 0.55, 0.20), 0.08),
);
// How far from each other spheres begin to melt.
const MELT = 0.35;
const FAR = 40.0;
const NEAR = 0.0005;
const PI = 3.14159265;

fn smooth_min(a: f32, b: f32) -> f32 {
    let overlap = max(MELT - abs(a - b), 0.0) / MELT;
    return min(a, b) - overlap * overlap * MELT * 0.25;
}

fn to_spheres(p: vec3<f32>) -> f32 {
    var nearest = FAR;
    for (var i = 0u; i < SPHERE_COUNT; i++) {
        nearest = smooth_min(nearest, length(p - SPHERES[i].center) - SPHERES[i].radius);
    }
    return nearest;
}

fn to_scene(p: vec3<f32>) -> f32 {
    return min(to_spheres(p), p.y);
}

// Distance along the ray to what it meets; FAR where that is nothing.
fn march(from_point: vec3<f32>, direction: vec3<f32>, steps: u32) -> f32 {
    var travelled = 0.02;
    for (var i = 0u; i < steps; i++) {
        let gap = to_scene(from_point + direction * travelled);
        if gap < NEAR * travelled {
            return travelled;
        }
        travelled += gap;
        if travelled > FAR {
            return FAR;
        }
    }
    return travelled;
}

// Differences along the four corners of a tetrahedron.
fn normal_at(p: vec3<f32>) -> vec3<f32> {
    let e = 0.002;
    let a = vec3(1.0, -1.0, -1.0);
    let b = vec3(-1.0, -1.0, 1.0);
    let c = vec3(-1.0, 1.0, -1.0);
    let d = vec3(1.0, 1.0, 1.0);
    return normalize(a * to_scene(p + a * e) + b * to_scene(p + b * e) + c * to_scene(p + c * e)
        + d * to_scene(p + d * e));
}

// How much of the sun is seen: the nearer a ray to it passes by something, the less.
fn sunlight(p: vec3<f32>) -> f32 {
    var seen = 1.0;
    var travelled = 0.03;
    for (var i = 0u; i < 40u; i++) {
        let gap = to_spheres(p + view.sun * travelled);
        seen = min(seen, 12.0 * gap / travelled);
        travelled += clamp(gap, 0.02, 0.4);
        if seen < 0.0 || travelled > 8.0 {
            break;
        }
    }
    let s = clamp(seen, 0.0, 1.0);
    return s * s * (3.0 - 2.0 * s);
}

// How open the scene is around `p`: what is missing of the distances that an open one would have.
fn openness(p: vec3<f32>, normal: vec3<f32>) -> f32 {
    var missing = 0.0;
    var weight = 1.0;
    for (var i = 1u; i <= 5u; i++) {
        let reach = 0.09 * f32(i);
        missing += (reach - to_scene(p + normal * reach)) * weight;
        weight *= 0.7;
    }
    return clamp(1.0 - 1.6 * missing, 0.0, 1.0);
}

fn sky(direction: vec3<f32>) -> vec3<f32> {
    let height = max(direction.y, 0.0);
    let blue = mix(vec3(0.66, 0.79, 0.93), vec3(0.07, 0.22, 0.58), sqrt(height));
    let towards = max(dot(direction, view.sun), 0.0);
    let glow = 0.35 * pow(towards, 12.0) + 4.0 * pow(towards, 900.0);
    return blue + vec3(1.0, 0.82, 0.55) * glow;
}

fn floor_at(p: vec3<f32>, distance_to_eye: f32) -> Surface {
    // The farther off, the softer an edge: it would flicker else.
    let edge = 0.03 + 0.02 * distance_to_eye;
    let wave = sin(PI * p.x) * sin(PI * p.z);
    let light = smoothstep(-edge, edge, wave);
    return Surface(mix(vec3(0.07, 0.08, 0.10), vec3(0.62, 0.60, 0.56), light), 0.03);
}

fn spheres_at(p: vec3<f32>) -> Surface {
    var color = vec3(0.0);
    var mirror = 0.0;
    var sum = 0.0;
    for (var i = 0u; i < SPHERE_COUNT; i++) {
        let gap = length(p - SPHERES[i].center) - SPHERES[i].radius;
        let weight = exp(-14.0 * gap);
        color += SPHERES[i].color * weight;
        mirror += SPHERES[i].mirror * weight;
        sum += weight;
    }
    return Surface(color / sum, mirror / sum);
}

fn surface_at(p: vec3<f32>, distance_to_eye: f32) -> Surface {
    if p.y < to_spheres(p) {
        return floor_at(p, distance_to_eye);
    }
    return spheres_at(p);
}

// What a surface sends towards the one who looks along `direction`, mirror left out.
fn lit(p: vec3<f32>, normal: vec3<f32>, direction: vec3<f32>, color: vec3<f32>) -> vec3<f32> {
    let facing = max(dot(normal, view.sun), 0.0);
    let sun = facing * sunlight(p + normal * 0.01);
    let open = openness(p, normal);
    let above = 0.5 + 0.5 * normal.y;
    let halfway = normalize(view.sun - direction);
    let shine = 0.5 * sun * pow(max(dot(normal, halfway), 0.0), 60.0);
    let light = vec3(1.0, 0.90, 0.74) * 2.6 * sun + vec3(0.17, 0.24, 0.38) * above * open
        + vec3(0.12, 0.10, 0.08) * (1.0 - above) * open;
    return color * light + vec3(shine);
}

fn fade(color: vec3<f32>, direction: vec3<f32>, travelled: f32) -> vec3<f32> {
    let clear = exp(-0.0024 * travelled * travelled);
    return mix(sky(vec3(direction.x, max(direction.y, 0.02), direction.z)), color, clear);
}

fn seen_along(direction: vec3<f32>) -> vec3<f32> {
    let travelled = march(view.eye, direction, 160u);
    if travelled >= FAR {
        return sky(direction);
    }
    let p = view.eye + direction * travelled;
    let normal = normal_at(p);
    let surface = surface_at(p, travelled);
    var color = lit(p, normal, direction, surface.color);

    let away = reflect(direction, normal);
    let further = march(p + normal * 0.01, away, 64u);
    var mirrored = sky(away);
    if further < FAR {
        let q = p + normal * 0.01 + away * further;
        let there = surface_at(q, travelled + further);
        mirrored = fade(lit(q, normal_at(q), away, there.color), away, further);
    }
    // Schlick's approximation: everything is a mirror, looked at flat enough.
    let flat_look = pow(1.0 - max(dot(normal, -direction), 0.0), 5.0);
    color = mix(color, mirrored, surface.mirror + (1.0 - surface.mirror) * 0.5 * flat_look);
    return fade(color, direction, travelled);
}

// Narkowicz (2015), a fit of the ACES curve; then the exponent of a display.
fn developed(color: vec3<f32>) -> vec3<f32> {
    let x = color * 0.55;
    let curve = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14);
    return pow(clamp(curve, vec3(0.0), vec3(1.0)), vec3(1.0 / 2.2));
}

// One triangle that covers the picture and needs no buffer.
@vertex
fn cover(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    let corner = vec2(f32(index & 1u), f32(index >> 1u));
    return vec4(corner * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn shade(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    let forward = normalize(view.at - view.eye);
    let right = normalize(cross(forward, vec3(0.0, 1.0, 0.0)));
    let up = cross(right, forward);
    // `position` is the middle of the pixel.
    let pixel = floor(position.xy);
    var sum = vec3(0.0);
    for (var y = 0u; y < SAMPLES; y++) {
        for (var x = 0u; x < SAMPLES; x++) {
            let inside = (vec2(f32(x), f32(y)) + 0.5) / f32(SAMPLES);
            let place = (2.0 * (pixel + inside) - view.size) / view.size.y * view.half_height;
            sum += seen_along(normalize(forward + right * place.x - up * place.y));
        }
    }
    return vec4(developed(sum / f32(SAMPLES * SAMPLES)), 1.0);
}
