//! One kernel, in as many specializations as there are numbers.

use cutile::api;
use cutile::error::Error;
use cutile::prelude::*;

/// How many there are.
pub(crate) const KERNELS: usize = 1000;
/// Elements of a tile, and of a vector.
pub(crate) const TILE: usize = 128;

#[cutile::module]
pub(crate) mod numbers {
    use cutile::core::*;

    /// `y ← y + K`
    #[cutile::entry()]
    pub(crate) fn add<const N: i32, const K: i32>(y: &mut Tensor<i32, { [N] }>) {
        let tile: Tile<i32, { [N] }> = load_tile_mut(y);
        let number: Tile<i32, { [N] }> = broadcast_scalar(K, shape![N]);
        y.store(tile + number);
    }
}

/// Generic arguments of one of them.
pub(crate) fn generics(number: usize) -> Vec<String> {
    vec![TILE.to_string(), number.to_string()]
}

/// Compiles all.
#[allow(dead_code, reason = "for the build script")]
pub(crate) fn warmup() -> Result<(), Error> {
    for number in 0..KERNELS {
        let y = api::meta::<i32>(&[TILE]).sync()?;
        numbers::add(y.partition([TILE])).generics(generics(number)).compile()?;
    }
    Ok(())
}
