//! Softmax of the rows of a matrix of `f32` or `f16`.

use cutile::error::Error;
use cutile::half::f16;
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, TileKernel};

use super::fill::Zeroed;
use super::{End, fill, meta, numbers};

/// The kernel.
#[cutile::module]
pub(crate) mod activation {
    use cutile::core::*;

    /// `out[r, c] ← exp(x[r, c] − max of row r) / sum of the row`, computed in `f32`.
    ///
    /// `x` has the shape of `out`. A tile block takes `BM` whole rows: `BN` is at least the number
    /// of columns, and what lies beyond them counts as −∞.
    #[cutile::entry()]
    pub(crate) fn softmax<E: ElementType, const BM: i32, const BN: i32>(
        out: &mut Tensor<E, { [BM, BN] }>,
        x: &Tensor<E, { [-1, -1] }>,
    ) {
        let x_tile: Tile<E, { [BM, BN] }> = x.load_like(out);
        let x_tile: Tile<f32, { [BM, BN] }> = convert_tile(x_tile);

        let column: Tile<i32, { [BN] }> = iota(shape![BN]);
        let column: Tile<i32, { [BM, BN] }> =
            column.reshape(shape![1, BN]).broadcast(shape![BM, BN]);
        let columns: i32 = get_shape_dim(x.shape(), 1i32);
        let columns: Tile<i32, { [BM, BN] }> = broadcast_scalar(columns, shape![BM, BN]);
        let inside: Tile<bool, { [BM, BN] }> = lt_tile(column, columns);
        let outside: Tile<f32, { [BM, BN] }> = constant(f32::NEG_INFINITY, shape![BM, BN]);
        let x_tile: Tile<f32, { [BM, BN] }> = select(inside, x_tile, outside);

        let row_max: Tile<f32, { [BM] }> = reduce_max(x_tile, 1i32);
        let row_max: Tile<f32, { [BM, BN] }> =
            row_max.reshape(shape![BM, 1]).broadcast(shape![BM, BN]);
        let weight: Tile<f32, { [BM, BN] }> = exp(x_tile - row_max);
        let row_sum: Tile<f32, { [BM] }> = reduce_sum(weight, 1i32);
        let row_sum: Tile<f32, { [BM, BN] }> =
            row_sum.reshape(shape![BM, 1]).broadcast(shape![BM, BN]);

        let result: Tile<E, { [BM, BN] }> = convert_tile(weight / row_sum);
        out.store(result);
    }
}

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "activation::softmax";

/// One launch, in the element type of the table it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Rows of the matrix.
    pub(crate) rows: usize,
    /// Columns of the matrix, at most `tile[1]`.
    pub(crate) columns: usize,
    /// Rows and columns per tile block, powers of two.
    pub(crate) tile: [usize; 2],
}

/// The launches of the app on `f32`.
pub(crate) const CASES_F32: &[Case] = &[
    Case { rows: 64, columns: 128, tile: [4, 128] },
    Case { rows: 37, columns: 100, tile: [4, 128] },
];

/// The launches of the app on `f16`.
pub(crate) const CASES_F16: &[Case] = &[Case { rows: 64, columns: 256, tile: [2, 256] }];

impl Case {
    /// Shape of the input and of the output.
    #[must_use]
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
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
    out: Tensor<E>,
    x: Tensor<E>,
    end: End,
) -> Result<Option<Tensor<E>>, Error> {
    finish!(activation::softmax(out.partition(case.tile), x).generics(case.generics::<E>()), end)
}

/// Compiles the specializations of both tables.
///
/// # Errors
///
/// The first that does not compile.
pub(crate) fn warmup() -> Result<(), Error> {
    warmup_of::<f32>(CASES_F32)?;
    warmup_of::<f16>(CASES_F16)
}

fn warmup_of<E: Zeroed>(cases: &[Case]) -> Result<(), Error> {
    for case in cases {
        let shape = case.shape();
        fill::warmup::<E>(&shape)?;
        launch::<E>(case, meta(&shape)?, meta(&shape)?, End::Compile)?;
    }
    Ok(())
}
