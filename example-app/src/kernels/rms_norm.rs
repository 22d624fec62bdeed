//! Root-mean-square normalization of the rows of an `f16` matrix.

use cutile::error::Error;
use cutile::half::f16;
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, TileKernel};

use super::{End, fill, meta, numbers};

/// The kernel.
#[cutile::module]
pub(crate) mod normalization {
    use cutile::core::*;

    /// `out[r, c] ← x[r, c] · weight[c] / √(mean over c of x[r, c]² + eps)`, summed in `f32`.
    ///
    /// `x` has the shape of `out`, `weight` one element per column. A tile block takes `BM` whole
    /// rows: `BN` is at least the number of columns, and what lies beyond them loads as zero,
    /// which adds nothing to the sum.
    #[cutile::entry()]
    pub(crate) fn rms_norm<const BM: i32, const BN: i32>(
        out: &mut Tensor<f16, { [BM, BN] }>,
        x: &Tensor<f16, { [-1, -1] }>,
        weight: &Tensor<f16, { [-1] }>,
        eps: f32,
    ) {
        let x_half: Tile<f16, { [BM, BN] }> = x.load_like(out);
        let x_tile: Tile<f32, { [BM, BN] }> = convert_tile(x_half);

        let columns: i32 = get_shape_dim(x.shape(), 1i32);
        let columns: f32 = convert_scalar::<f32>(columns);
        let square_sum: Tile<f32, { [BM] }> = reduce_sum(x_tile * x_tile, 1i32);
        let mean: Tile<f32, { [BM] }> = square_sum / broadcast_scalar(columns, shape![BM]);
        let eps: Tile<f32, { [BM] }> = broadcast_scalar(eps, shape![BM]);
        let scale: Tile<f32, { [BM] }> = rsqrt(mean + eps, ftz::Disabled);
        let scale: Tile<f32, { [BM, BN] }> = scale.reshape(shape![BM, 1]).broadcast(shape![BM, BN]);

        let weight_half: Tile<f16, { [BN] }> = weight.partition(shape![BN]).load([0i32]);
        let weight_tile: Tile<f32, { [BN] }> = convert_tile(weight_half);
        let weight_tile: Tile<f32, { [BM, BN] }> =
            weight_tile.reshape(shape![1, BN]).broadcast(shape![BM, BN]);

        let result: Tile<f16, { [BM, BN] }> = convert_tile(x_tile * scale * weight_tile);
        out.store(result);
    }
}

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "normalization::rms_norm";

/// What is added to the mean square of every launch.
pub(crate) const EPS: f32 = 1e-5;

/// One launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Rows of the matrix.
    pub(crate) rows: usize,
    /// Columns of the matrix, at most `tile[1]`.
    pub(crate) columns: usize,
    /// Rows and columns per tile block, powers of two.
    pub(crate) tile: [usize; 2],
}

/// The launches of the app.
pub(crate) const CASES: &[Case] = &[
    Case { rows: 64, columns: 256, tile: [4, 256] },
    Case { rows: 50, columns: 200, tile: [4, 256] },
    Case { rows: 32, columns: 1024, tile: [1, 1024] },
];

impl Case {
    /// Shape of the input and of the output.
    #[must_use]
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Shape of the weights.
    #[must_use]
    pub(crate) fn weight_shape(&self) -> [usize; 1] {
        [self.columns]
    }

    /// Generic arguments of the kernel.
    #[must_use]
    pub(crate) fn generics(&self) -> Vec<String> {
        numbers(self.tile)
    }
}

/// Calls the kernel.
///
/// # Errors
///
/// Where it does not compile, or the launch fails.
pub(crate) fn launch(
    case: &Case,
    out: Tensor<f16>,
    x: Tensor<f16>,
    weight: Tensor<f16>,
    end: End,
) -> Result<Option<Tensor<f16>>, Error> {
    let out = out.partition(case.tile);
    finish!(normalization::rms_norm(out, x, weight, EPS).generics(case.generics()), end)
}

/// Compiles the specializations of all [`CASES`].
///
/// # Errors
///
/// The first that does not compile.
pub(crate) fn warmup() -> Result<(), Error> {
    for case in CASES {
        let shape = case.shape();
        fill::warmup::<f16>(&shape)?;
        launch(case, meta(&shape)?, meta(&shape)?, meta(&case.weight_shape())?, End::Compile)?;
    }
    Ok(())
}
