//! Inputs from a seeded generator on the host, the same on every machine.
//!
//! cuRAND would belong to the toolkit, which a machine that runs this app need not have.

use cutile::half::{bf16, f16};

use crate::kernels::fill::Zeroed;

/// SplitMix64 (Steele, Lea and Flood, 2014): a 64-bit counter through a mixing function.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    /// A generator whose numbers `seed` decides.
    #[must_use]
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of [−1, 1) that `f32` holds exactly.
    pub(crate) fn unit(&mut self) -> f32 {
        let bits = (self.next_u64() >> 40) as i32;
        (bits - (1 << 23)) as f32 / (1 << 23) as f32
    }

    /// `len` numbers of [−`scale`, `scale`], rounded to `E`.
    pub(crate) fn values<E: Element>(&mut self, len: usize, scale: f32) -> Vec<E> {
        (0..len).map(|_| E::rounded(self.unit() * scale)).collect()
    }
}

/// An element type of the app's tensors.
pub(crate) trait Element: Zeroed {
    /// Largest accepted ‖out − reference‖ / ‖reference‖ of a kernel that stores this type.
    const BOUND: f64;

    /// The nearest value, ties to even.
    fn rounded(value: f32) -> Self;

    /// The same value in `f64`.
    fn widened(self) -> f64;
}

impl Element for f32 {
    const BOUND: f64 = 1e-5;

    fn rounded(value: f32) -> Self {
        value
    }

    fn widened(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f16 {
    const BOUND: f64 = 2e-3;

    fn rounded(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn widened(self) -> f64 {
        self.to_f64()
    }
}

impl Element for bf16 {
    const BOUND: f64 = 2e-2;

    fn rounded(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn widened(self) -> f64 {
        self.to_f64()
    }
}

/// The values in `f64`: what the references compute on.
pub(crate) fn widened<E: Element>(values: &[E]) -> Vec<f64> {
    values.iter().map(|value| value.widened()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut generator = Generator::new(1_234_567);
        let numbers = [(); 3].map(|()| generator.next_u64());
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, published);
    }

    #[test]
    fn equal_seeds_give_equal_inputs_and_others_do_not() {
        let values = |seed| Generator::new(seed).values::<f32>(64, 1.0);
        assert_eq!(values(7), values(7));
        assert_ne!(values(7), values(8));
    }

    #[test]
    fn values_fill_the_interval_and_stay_in_it() {
        let values = Generator::new(1).values::<f32>(10_000, 2.0);
        assert!(values.iter().all(|value| (-2.0..2.0).contains(value)));
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05, "mean {mean}");
        assert!(values.iter().any(|&value| value < -1.9) && values.iter().any(|&v| v > 1.9));
    }

    #[test]
    fn rounding_is_to_nearest_even_and_widening_is_exact() {
        // Halfway between 1 and the next number: 11 bits of mantissa, and 8.
        assert_eq!(f16::rounded(1.0 + 1.0 / 2048.0).widened(), 1.0);
        assert_eq!(f16::rounded(1.0 + 3.0 / 2048.0).widened(), 1.0 + 4.0 / 2048.0);
        assert_eq!(bf16::rounded(1.0 + 1.0 / 256.0).widened(), 1.0);
        assert_eq!(bf16::rounded(1.0 + 3.0 / 256.0).widened(), 1.0 + 4.0 / 256.0);
        assert_eq!(widened(&[0.1f32]), [f64::from(0.1f32)]);
    }
}
