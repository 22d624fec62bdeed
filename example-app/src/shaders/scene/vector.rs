//! Three numbers with the operations that WGSL has on them.

use std::ops::{Add, Div, Mul, Sub};

/// `vec3<f32>`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vec3 {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

/// `vec3(x, y, z)`.
pub(super) const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

impl Vec3 {
    /// The same number three times.
    pub(super) const fn splat(value: f32) -> Self {
        vec3(value, value, value)
    }

    /// `f` of each number.
    pub(super) fn map(self, f: impl Fn(f32) -> f32) -> Self {
        vec3(f(self.x), f(self.y), f(self.z))
    }

    pub(super) fn length(self) -> f32 {
        dot(self, self).sqrt()
    }

    pub(super) fn normalized(self) -> Self {
        self * (1.0 / self.length())
    }
}

impl Add for Vec3 {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        vec3(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vec3 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        vec3(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul for Vec3 {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        vec3(self.x * other.x, self.y * other.y, self.z * other.z)
    }
}

impl Mul<f32> for Vec3 {
    type Output = Self;

    fn mul(self, factor: f32) -> Self {
        self.map(|value| value * factor)
    }
}

impl Div<f32> for Vec3 {
    type Output = Self;

    fn div(self, divisor: f32) -> Self {
        self.map(|value| value / divisor)
    }
}

pub(super) fn dot(a: Vec3, b: Vec3) -> f32 {
    a.x * b.x + a.y * b.y + a.z * b.z
}

pub(super) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    vec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)
}

/// `direction` thrown back by a surface with this normal.
pub(super) fn reflect(direction: Vec3, normal: Vec3) -> Vec3 {
    direction - normal * (2.0 * dot(direction, normal))
}

pub(super) fn mix(a: Vec3, b: Vec3, share: f32) -> Vec3 {
    a * (1.0 - share) + b * share
}

pub(super) fn smoothstep(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_hand() {
        let (x, y) = (vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0));
        assert_eq!(cross(x, y), vec3(0.0, 0.0, 1.0));
        assert_eq!(vec3(0.0, 3.0, 4.0).normalized(), vec3(0.0, 3.0, 4.0) * (1.0 / 5.0));
        assert_eq!(reflect(vec3(1.0, -1.0, 0.0), y), vec3(1.0, 1.0, 0.0));
        assert_eq!(mix(x, y, 0.25), vec3(0.75, 0.25, 0.0));
        assert_eq!([-1.0, 0.0, 1.0, 9.0].map(|x| smoothstep(-1.0, 1.0, x)), [0.0, 0.5, 1.0, 1.0]);
    }
}
