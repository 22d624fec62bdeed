//! Matrix product in `f16` or `bf16`, accumulated in `f32`.

use cutile::error::Error;
use cutile::half::{bf16, f16};
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, TileKernel};

use super::fill::Zeroed;
use super::{End, fill, meta, numbers};

/// The kernel.
#[cutile::module]
pub(crate) mod matmul {
    use cutile::core::*;

    /// `z ← x · y`: `z` is M × N, `x` is M × K, `y` is K × N, all row-major.
    ///
    /// A tile block computes `BM` × `BN` elements of `z` in steps of `BK` along K. No extent has
    /// to be a multiple of its tile: tiles load zeros beyond the edges, which add nothing to the
    /// sum, and store nothing there.
    #[cutile::entry()]
    pub(crate) fn gemm<E: ElementType, const BM: i32, const BN: i32, const BK: i32>(
        z: &mut Tensor<E, { [BM, BN] }>,
        x: &Tensor<E, { [-1, -1] }>,
        y: &Tensor<E, { [-1, -1] }>,
    ) {
        let x_part = x.partition(shape![BM, BK]);
        let y_part = y.partition(shape![BK, BN]);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, shape![BM, BN]);
        for k in 0i32..num_tiles(&x_part, 1) {
            let x_tile: Tile<E, { [BM, BK] }> = x_part.load([pid.0, k]);
            let y_tile: Tile<E, { [BK, BN] }> = y_part.load([k, pid.1]);
            acc = mma(x_tile, y_tile, acc);
        }
        let result: Tile<E, { [BM, BN] }> = convert_tile(acc);
        z.store(result);
    }
}

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "matmul::gemm";

/// The small tile: rows and columns of the result, and the step along K, per tile block.
pub(crate) const SMALL: [usize; 3] = [32, 64, 32];

/// The large tile.
pub(crate) const LARGE: [usize; 3] = [128, 64, 32];

/// One launch, in the element type of the table it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Rows of the result.
    pub(crate) m: usize,
    /// Columns of the result.
    pub(crate) n: usize,
    /// Columns of `x`, rows of `y`.
    pub(crate) k: usize,
    /// Rows and columns of the result, and the step along K, per tile block: powers of two.
    pub(crate) tile: [usize; 3],
}

/// The launches of the app on `f16`: multiples of 16, of 2, of 8.
pub(crate) const CASES_F16: &[Case] = &[
    Case { m: 128, n: 192, k: 128, tile: SMALL },
    Case { m: 100, n: 70, k: 50, tile: SMALL },
    Case { m: 256, n: 128, k: 128, tile: LARGE },
    Case { m: 200, n: 136, k: 72, tile: LARGE },
];

/// The launches of the app on `bf16`: multiples of 16, odd, multiples of 16.
pub(crate) const CASES_BF16: &[Case] = &[
    Case { m: 128, n: 192, k: 128, tile: SMALL },
    Case { m: 77, n: 65, k: 33, tile: SMALL },
    Case { m: 256, n: 128, k: 128, tile: LARGE },
];

impl Case {
    /// Shape of `x`.
    #[must_use]
    pub(crate) fn x_shape(&self) -> [usize; 2] {
        [self.m, self.k]
    }

    /// Shape of `y`.
    #[must_use]
    pub(crate) fn y_shape(&self) -> [usize; 2] {
        [self.k, self.n]
    }

    /// Shape of the result.
    #[must_use]
    pub(crate) fn z_shape(&self) -> [usize; 2] {
        [self.m, self.n]
    }

    /// Generic arguments of the kernel for elements of type `E`.
    #[must_use]
    pub(crate) fn generics<E: Zeroed>(&self) -> Vec<String> {
        [vec![E::DTYPE.as_str().to_owned()], numbers(self.tile)].concat()
    }
}

/// Calls the kernel.
///
/// # Errors
///
/// Where it does not compile, or the launch fails.
pub(crate) fn launch<E: Zeroed>(
    case: &Case,
    z: Tensor<E>,
    x: Tensor<E>,
    y: Tensor<E>,
    end: End,
) -> Result<Option<Tensor<E>>, Error> {
    let [rows, columns, _] = case.tile;
    let z = z.partition([rows, columns]);
    finish!(matmul::gemm(z, x, y).generics(case.generics::<E>()), end)
}

/// Compiles the specializations of both tables.
///
/// # Errors
///
/// The first that does not compile.
pub(crate) fn warmup() -> Result<(), Error> {
    warmup_of::<f16>(CASES_F16)?;
    warmup_of::<bf16>(CASES_BF16)
}

fn warmup_of<E: Zeroed>(cases: &[Case]) -> Result<(), Error> {
    for case in cases {
        fill::warmup::<E>(&case.z_shape())?;
        let (x, y) = (meta(&case.x_shape())?, meta(&case.y_shape())?);
        launch::<E>(case, meta(&case.z_shape())?, x, y, End::Compile)?;
    }
    Ok(())
}
