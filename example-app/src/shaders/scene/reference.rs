//! `shaders/scene.wgsl` once more, function by function, in `f32` as there.

use super::vector::{Vec3, cross, dot, mix, reflect, smoothstep, vec3};
use std::f32::consts::PI;

/// `View` of the shader.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) eye: Vec3,
    pub(super) half_height: f32,
    pub(super) at: Vec3,
    pub(super) sun: Vec3,
    /// Width and height of the picture in pixels.
    pub(super) size: [f32; 2],
}

#[derive(Clone, Copy)]
struct Surface {
    color: Vec3,
    mirror: f32,
}

struct Sphere {
    center: Vec3,
    radius: f32,
    surface: Surface,
}

const fn sphere(center: Vec3, radius: f32, color: Vec3, mirror: f32) -> Sphere {
    Sphere { center, radius, surface: Surface { color, mirror } }
}

const SPHERES: [Sphere; 5] = [
    sphere(vec3(-0.55, 0.80, 0.00), 0.80, vec3(0.85, 0.16, 0.10), 0.06),
    sphere(vec3(0.55, 0.50, 0.42), 0.50, vec3(0.95, 0.62, 0.10), 0.05),
    sphere(vec3(1.85, 0.70, -0.75), 0.70, vec3(0.80, 0.82, 0.86), 0.55),
    sphere(vec3(-2.05, 0.45, 0.75), 0.45, vec3(0.10, 0.45, 0.62), 0.08),
    sphere(vec3(0.35, 0.24, 1.55), 0.24, vec3(0.22, 0.55, 0.20), 0.08),
];
const MELT: f32 = 0.35;
const FAR: f32 = 40.0;
const NEAR: f32 = 0.0005;

fn smooth_min(a: f32, b: f32) -> f32 {
    let overlap = (MELT - (a - b).abs()).max(0.0) / MELT;
    a.min(b) - overlap * overlap * MELT * 0.25
}

fn to_spheres(p: Vec3) -> f32 {
    SPHERES.iter().fold(FAR, |nearest, sphere| {
        smooth_min(nearest, (p - sphere.center).length() - sphere.radius)
    })
}

fn to_scene(p: Vec3) -> f32 {
    to_spheres(p).min(p.y)
}

fn march(from: Vec3, direction: Vec3, steps: u32) -> f32 {
    let mut travelled = 0.02;
    for _ in 0..steps {
        let gap = to_scene(from + direction * travelled);
        if gap < NEAR * travelled {
            return travelled;
        }
        travelled += gap;
        if travelled > FAR {
            return FAR;
        }
    }
    travelled
}

fn normal_at(p: Vec3) -> Vec3 {
    let corners =
        [vec3(1.0, -1.0, -1.0), vec3(-1.0, -1.0, 1.0), vec3(-1.0, 1.0, -1.0), Vec3::splat(1.0)];
    let slopes = corners.map(|corner| corner * to_scene(p + corner * 0.002));
    (slopes[0] + slopes[1] + slopes[2] + slopes[3]).normalized()
}

fn sunlight(view: &View, p: Vec3) -> f32 {
    let mut seen = 1.0f32;
    let mut travelled = 0.03;
    for _ in 0..40 {
        let gap = to_spheres(p + view.sun * travelled);
        seen = seen.min(12.0 * gap / travelled);
        travelled += gap.clamp(0.02, 0.4);
        if seen < 0.0 || travelled > 8.0 {
            break;
        }
    }
    smoothstep(0.0, 1.0, seen)
}

fn openness(p: Vec3, normal: Vec3) -> f32 {
    let mut missing = 0.0;
    let mut weight = 1.0;
    for i in 1u8..=5 {
        let reach = 0.09 * f32::from(i);
        missing += (reach - to_scene(p + normal * reach)) * weight;
        weight *= 0.7;
    }
    (1.0 - 1.6 * missing).clamp(0.0, 1.0)
}

fn sky(view: &View, direction: Vec3) -> Vec3 {
    let height = direction.y.max(0.0);
    let blue = mix(vec3(0.66, 0.79, 0.93), vec3(0.07, 0.22, 0.58), height.sqrt());
    let towards = dot(direction, view.sun).max(0.0);
    let glow = 0.35 * towards.powf(12.0) + 4.0 * towards.powf(900.0);
    blue + vec3(1.0, 0.82, 0.55) * glow
}

fn floor_at(p: Vec3, distance_to_eye: f32) -> Surface {
    let edge = 0.03 + 0.02 * distance_to_eye;
    let wave = (PI * p.x).sin() * (PI * p.z).sin();
    let light = smoothstep(-edge, edge, wave);
    Surface { color: mix(vec3(0.07, 0.08, 0.10), vec3(0.62, 0.60, 0.56), light), mirror: 0.03 }
}

fn spheres_at(p: Vec3) -> Surface {
    let (mut color, mut mirror, mut sum) = (Vec3::splat(0.0), 0.0, 0.0);
    for Sphere { center, radius, surface } in &SPHERES {
        let weight = (-14.0 * ((p - *center).length() - radius)).exp();
        color = color + surface.color * weight;
        mirror += surface.mirror * weight;
        sum += weight;
    }
    Surface { color: color / sum, mirror: mirror / sum }
}

fn surface_at(p: Vec3, distance_to_eye: f32) -> Surface {
    if p.y < to_spheres(p) { floor_at(p, distance_to_eye) } else { spheres_at(p) }
}

fn lit(view: &View, p: Vec3, normal: Vec3, direction: Vec3, color: Vec3) -> Vec3 {
    let facing = dot(normal, view.sun).max(0.0);
    let sun = facing * sunlight(view, p + normal * 0.01);
    let open = openness(p, normal);
    let above = 0.5 + 0.5 * normal.y;
    let halfway = (view.sun - direction).normalized();
    let shine = 0.5 * sun * dot(normal, halfway).max(0.0).powf(60.0);
    let light = vec3(1.0, 0.90, 0.74) * (2.6 * sun)
        + vec3(0.17, 0.24, 0.38) * (above * open)
        + vec3(0.12, 0.10, 0.08) * ((1.0 - above) * open);
    color * light + Vec3::splat(shine)
}

fn fade(view: &View, color: Vec3, direction: Vec3, travelled: f32) -> Vec3 {
    let clear = (-0.0024 * travelled * travelled).exp();
    mix(sky(view, vec3(direction.x, direction.y.max(0.02), direction.z)), color, clear)
}

fn seen_along(view: &View, direction: Vec3) -> Vec3 {
    let travelled = march(view.eye, direction, 160);
    if travelled >= FAR {
        return sky(view, direction);
    }
    let p = view.eye + direction * travelled;
    let normal = normal_at(p);
    let surface = surface_at(p, travelled);
    let color = lit(view, p, normal, direction, surface.color);

    let away = reflect(direction, normal);
    let further = march(p + normal * 0.01, away, 64);
    let mirrored = if further < FAR {
        let q = p + normal * 0.01 + away * further;
        let there = surface_at(q, travelled + further);
        fade(view, lit(view, q, normal_at(q), away, there.color), away, further)
    } else {
        sky(view, away)
    };
    let flat_look = (1.0 - (-dot(normal, direction)).max(0.0)).powi(5);
    let share = surface.mirror + (1.0 - surface.mirror) * 0.5 * flat_look;
    fade(view, mix(color, mirrored, share), direction, travelled)
}

fn developed(color: Vec3) -> Vec3 {
    color.map(|color| {
        let x = color * 0.55;
        let curve = (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14);
        curve.clamp(0.0, 1.0).powf(1.0 / 2.2)
    })
}

/// The color of a pixel, red, green and blue from 0 to 1, of `samples` × `samples` samples.
pub(super) fn shade(view: &View, samples: u32, [column, row]: [u32; 2]) -> Vec3 {
    let forward = (view.at - view.eye).normalized();
    let right = cross(forward, vec3(0.0, 1.0, 0.0)).normalized();
    let up = cross(right, forward);
    let [width, height] = view.size;
    let inside = |sample: u32| (sample as f32 + 0.5) / samples as f32;
    let mut sum = Vec3::splat(0.0);
    for y in 0..samples {
        for x in 0..samples {
            let scale = |at: u32, sample: u32, size: f32| {
                (2.0 * (at as f32 + inside(sample)) - size) / height * view.half_height
            };
            let (x, y) = (scale(column, x, width), scale(row, y, height));
            sum = sum + seen_along(view, (forward + right * x - up * y).normalized());
        }
    }
    developed(sum / (samples * samples) as f32)
}
