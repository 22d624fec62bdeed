//! `y ← a·x + y` over vectors of `f32`.

use cutile::error::Error;
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, TileKernel};

use super::{End, meta, numbers};

/// The kernel.
#[cutile::module]
pub(crate) mod elementwise {
    use cutile::core::*;

    /// `y ← a·x + y`, one tile of `N` elements per tile block. `x` is as long as `y`; the last
    /// tile may reach over the end, where it loads zeros and stores nothing.
    #[cutile::entry()]
    pub(crate) fn saxpy<const N: i32>(
        y: &mut Tensor<f32, { [N] }>,
        a: f32,
        x: &Tensor<f32, { [-1] }>,
    ) {
        let tile_y: Tile<f32, { [N] }> = load_tile_mut(y);
        let tile_x: Tile<f32, { [N] }> = x.load_like(y);
        let tile_a: Tile<f32, { [N] }> = broadcast_scalar(a, shape![N]);
        y.store(tile_a * tile_x + tile_y);
    }
}

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "elementwise::saxpy";

/// The factor of every launch.
pub(crate) const A: f32 = 0.75;

/// One launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Elements in each vector.
    pub(crate) len: usize,
    /// Elements per tile block, a power of two.
    pub(crate) tile: usize,
}

/// The launches of the app: lengths that 16, 8 and nothing but 1 divide.
pub(crate) const CASES: &[Case] = &[
    Case { len: 4096, tile: 256 },
    Case { len: 1000, tile: 256 },
    Case { len: 1003, tile: 256 },
    Case { len: 1 << 16, tile: 1024 },
];

impl Case {
    /// Shape of both vectors.
    #[must_use]
    pub(crate) fn shape(&self) -> [usize; 1] {
        [self.len]
    }

    /// Generic arguments of the kernel.
    #[must_use]
    pub(crate) fn generics(&self) -> Vec<String> {
        numbers([self.tile])
    }
}

/// Calls the kernel; the output is `y`.
///
/// # Errors
///
/// Where it does not compile, or the launch fails.
pub(crate) fn launch(
    case: &Case,
    y: Tensor<f32>,
    x: Tensor<f32>,
    end: End,
) -> Result<Option<Tensor<f32>>, Error> {
    finish!(elementwise::saxpy(y.partition([case.tile]), A, x).generics(case.generics()), end)
}

/// Compiles the specializations of all [`CASES`].
///
/// # Errors
///
/// The first that does not compile.
pub(crate) fn warmup() -> Result<(), Error> {
    for case in CASES {
        launch(case, meta(&case.shape())?, meta(&case.shape())?, End::Compile)?;
    }
    Ok(())
}
