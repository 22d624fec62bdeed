//! Attention in `f16` that never stores the matrix of scores.

use std::f32::consts::LOG2_E;

use cutile::error::Error;
use cutile::half::f16;
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, TileKernel};

use super::{End, fill, meta, numbers};

/// The kernel.
#[cutile::module]
pub(crate) mod attention {
    use cutile::core::*;

    /// `out ← softmax(scale · ln 2 · q · kᵀ) · v` per head; every tensor is heads × length × `D`.
    /// The exponentials are powers of two, hence the factor.
    ///
    /// A tile block takes `BM` rows of `q` and walks over the keys in steps of `BN`. It keeps for
    /// each row the largest score so far and the sum of the exponentials relative to it, and
    /// rescales both the sum and the result when a larger score comes (online softmax). Scores,
    /// sum and result are `f32`; the weights are rounded to `f16` for the product with `v`.
    ///
    /// `CAUSAL` = 1 hides the keys after a row's own position. `EVEN` = 1 states that the length
    /// is a multiple of `BN`; otherwise the keys beyond it are hidden.
    #[cutile::entry()]
    pub(crate) fn flash_attention<
        const BM: i32,
        const BN: i32,
        const D: i32,
        const CAUSAL: i32,
        const EVEN: i32,
    >(
        out: &mut Tensor<f16, { [1, BM, D] }>,
        q: &Tensor<f16, { [-1, -1, -1] }>,
        k: &Tensor<f16, { [-1, -1, -1] }>,
        v: &Tensor<f16, { [-1, -1, -1] }>,
        scale: f32,
    ) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let head = pid.0;
        let row_block = pid.1;

        let scale: Tile<f32, { [BM, BN] }> = broadcast_scalar(scale, shape![BM, BN]);

        let q_part = q.partition(shape![1, BM, D]);
        let k_part = k.partition(shape![1, BN, D]);
        let v_part = v.partition(shape![1, BN, D]);
        let q_tile: Tile<f16, { [1, BM, D] }> = q_part.load([head, row_block, 0i32]);
        let q_tile: Tile<f16, { [BM, D] }> = q_tile.reshape(shape![BM, D]);

        let mut row_max: Tile<f32, { [BM, 1] }> = constant(f32::NEG_INFINITY, shape![BM, 1]);
        let mut row_sum: Tile<f32, { [BM, 1] }> = constant(0.0f32, shape![BM, 1]);
        let mut acc: Tile<f32, { [BM, D] }> = constant(0.0f32, shape![BM, D]);

        let row: Tile<i32, { [BM] }> = iota(shape![BM]);
        let row: Tile<i32, { [BM] }> = row + broadcast_scalar(row_block * BM, shape![BM]);
        let row: Tile<i32, { [BM, BN] }> = row.reshape(shape![BM, 1]).broadcast(shape![BM, BN]);
        let column: Tile<i32, { [BN] }> = iota(shape![BN]);
        let column: Tile<i32, { [BM, BN] }> =
            column.reshape(shape![1, BN]).broadcast(shape![BM, BN]);
        let length: i32 = get_shape_dim(k.shape(), 1i32);
        let length_tile: Tile<i32, { [BM, BN] }> = broadcast_scalar(length, shape![BM, BN]);
        let hidden: Tile<f32, { [BM, BN] }> = constant(f32::NEG_INFINITY, shape![BM, BN]);

        // The loop runs over all key blocks, so that its accesses are known to be in bounds.
        for j in 0i32..num_tiles(&k_part, 1) {
            // Keys after the block's last row are hidden from all of its rows.
            if CAUSAL == 0i32 || j * BN < (row_block + 1i32) * BM {
                let k_tile: Tile<f16, { [1, BN, D] }> = k_part.load([head, j, 0i32]);
                let k_tile: Tile<f16, { [BN, D] }> = k_tile.reshape(shape![BN, D]);
                let k_tile: Tile<f16, { [D, BN] }> = k_tile.transpose();
                let zero: Tile<f32, { [BM, BN] }> = constant(0.0f32, shape![BM, BN]);
                let mut score: Tile<f32, { [BM, BN] }> = mma(q_tile, k_tile, zero);
                score = score * scale;

                if CAUSAL == 1i32 || EVEN == 0i32 {
                    let key: Tile<i32, { [BM, BN] }> =
                        column + broadcast_scalar(j * BN, shape![BM, BN]);
                    let mut seen: Tile<bool, { [BM, BN] }> = constant(true, shape![BM, BN]);
                    if EVEN == 0i32 {
                        let inside: Tile<bool, { [BM, BN] }> = lt_tile(key, length_tile);
                        seen = seen & inside;
                    }
                    if CAUSAL == 1i32 {
                        let past: Tile<bool, { [BM, BN] }> = ge_tile(row, key);
                        seen = seen & past;
                    }
                    score = select(seen, score, hidden);
                }

                // Key 0 is hidden from no row, so that the maximum is finite from the first step on.
                let block_max: Tile<f32, { [BM] }> = reduce_max(score, 1i32);
                let new_max: Tile<f32, { [BM, 1] }> =
                    max_tile(row_max, block_max.reshape(shape![BM, 1]));
                let weight: Tile<f32, { [BM, BN] }> =
                    exp2(score - new_max.broadcast(shape![BM, BN]), ftz::Disabled);
                let block_sum: Tile<f32, { [BM] }> = reduce_sum(weight, 1i32);
                let rescale: Tile<f32, { [BM, 1] }> = exp2(row_max - new_max, ftz::Disabled);
                row_sum = row_sum * rescale + block_sum.reshape(shape![BM, 1]);
                acc = acc * rescale.broadcast(shape![BM, D]);

                let v_tile: Tile<f16, { [1, BN, D] }> = v_part.load([head, j, 0i32]);
                let v_tile: Tile<f16, { [BN, D] }> = v_tile.reshape(shape![BN, D]);
                let weight: Tile<f16, { [BM, BN] }> = convert_tile(weight);
                acc = mma(weight, v_tile, acc);
                row_max = new_max;
            }
        }

        let result: Tile<f16, { [BM, D] }> = convert_tile(acc / row_sum.broadcast(shape![BM, D]));
        out.store(result.reshape(shape![1, BM, D]));
    }
}

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "attention::flash_attention";

/// One launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Heads; a batch counts its heads one after the other.
    pub(crate) heads: usize,
    /// Rows of `q`, `k` and `v` in each head.
    pub(crate) length: usize,
    /// Columns of each head, a power of two.
    pub(crate) columns: usize,
    /// Rows of `q` and of `k` per step, powers of two.
    pub(crate) tile: [usize; 2],
    /// Whether a row sees only itself and the rows before it.
    pub(crate) causal: bool,
}

/// The launches of the app.
pub(crate) const CASES: &[Case] = &[
    Case { heads: 4, length: 128, columns: 64, tile: [64, 32], causal: true },
    Case { heads: 4, length: 128, columns: 64, tile: [64, 32], causal: false },
    Case { heads: 3, length: 100, columns: 64, tile: [64, 32], causal: true },
    Case { heads: 3, length: 100, columns: 64, tile: [64, 32], causal: false },
];

impl Case {
    /// Shape of `q`, `k`, `v` and of the result.
    #[must_use]
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.heads, self.length, self.columns]
    }

    /// Factor on the scores: 1 / √columns.
    #[must_use]
    pub(crate) fn scale(&self) -> f32 {
        1.0 / (self.columns as f32).sqrt()
    }

    /// Generic arguments of the kernel.
    #[must_use]
    pub(crate) fn generics(&self) -> Vec<String> {
        let [rows, keys] = self.tile;
        let even = self.length.is_multiple_of(keys);
        numbers([rows, keys, self.columns, usize::from(self.causal), usize::from(even)])
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
    [q, k, v]: [Tensor<f16>; 3],
    end: End,
) -> Result<Option<Tensor<f16>>, Error> {
    let out = out.partition([1, case.tile[0], case.columns]);
    let call = attention::flash_attention(out, q, k, v, case.scale() * LOG2_E);
    finish!(call.generics(case.generics()), end)
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
        let inputs = [meta(&shape)?, meta(&shape)?, meta(&shape)?];
        launch(case, meta(&shape)?, inputs, End::Compile)?;
    }
    Ok(())
}
