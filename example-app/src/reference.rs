//! What the kernels compute, once more on the CPU in `f64`, written to be read.
//!
//! Matrices are row-major slices; the inputs are the rounded ones the kernels see.

/// `a·x + y`.
#[must_use]
pub(crate) fn saxpy(a: f64, x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| a * x + y).collect()
}

/// Rows of `x` over their root mean square (`eps` added to the mean), times `weight` by column.
#[must_use]
pub(crate) fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let columns = weight.len();
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(columns) {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
        let scale = 1.0 / (mean + eps).sqrt();
        out.extend(row.iter().zip(weight).map(|(x, weight)| x * scale * weight));
    }
    out
}

/// Softmax of each row of `columns` numbers.
#[must_use]
pub(crate) fn softmax(x: &[f64], columns: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(columns) {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        out.extend(row.iter().map(|x| (x - max).exp() / sum));
    }
    out
}

/// `x · y`, where `x` has `k` columns and `y` has `n`.
#[must_use]
pub(crate) fn gemm(x: &[f64], y: &[f64], k: usize, n: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len() / k * n);
    for row in x.chunks_exact(k) {
        let mut sums = vec![0.0; n];
        for (x, y_row) in row.iter().zip(y.chunks_exact(n)) {
            for (sum, y) in sums.iter_mut().zip(y_row) {
                *sum += x * y;
            }
        }
        out.append(&mut sums);
    }
    out
}

/// Shape and options of [`attention`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    /// Rows of `q`, `k` and `v` in each head.
    pub(crate) length: usize,
    /// Columns of each head.
    pub(crate) columns: usize,
    /// Whether a row sees only itself and the rows before it.
    pub(crate) causal: bool,
    /// Factor on the scores.
    pub(crate) scale: f64,
}

/// `softmax(scale · q · kᵀ) · v` of each head, one head after the other.
#[must_use]
pub(crate) fn attention(of: Attention, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
    let Attention { length, columns, causal, scale } = of;
    let head = length * columns;
    let mut out = Vec::with_capacity(q.len());
    for ((q, k), v) in q.chunks_exact(head).zip(k.chunks_exact(head)).zip(v.chunks_exact(head)) {
        for (row, q) in q.chunks_exact(columns).enumerate() {
            let seen = if causal { row + 1 } else { length };
            let scores: Vec<f64> = k
                .chunks_exact(columns)
                .take(seen)
                .map(|k| scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>())
                .collect();
            out.append(&mut gemm(&softmax(&scores, seen), &v[..seen * columns], seen, columns));
        }
    }
    out
}

/// ‖out − reference‖ / ‖reference‖ in the Euclidean norm; ‖out‖ where the reference is zero.
///
/// # Panics
///
/// If the lengths differ.
#[must_use]
pub(crate) fn relative_error(out: &[f64], reference: &[f64]) -> f64 {
    assert_eq!(out.len(), reference.len(), "output and reference differ in length");
    let norm = |squares: f64| squares.sqrt();
    let difference = norm(out.iter().zip(reference).map(|(o, r)| (o - r) * (o - r)).sum());
    let size = norm(reference.iter().map(|r| r * r).sum());
    if size == 0.0 { difference } else { difference / size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{Generator, widened};

    fn numbers(seed: u64, len: usize) -> Vec<f64> {
        widened(&Generator::new(seed).values::<f32>(len, 1.0))
    }

    fn assert_close(out: &[f64], expected: &[f64]) {
        let error = relative_error(out, expected);
        assert!(error < 1e-12, "{out:?} is not {expected:?}: relative error {error}");
    }

    #[test]
    fn saxpy_by_hand() {
        assert_eq!(saxpy(2.0, &[1.0, -3.0], &[10.0, 20.0]), [12.0, 14.0]);
    }

    #[test]
    fn rms_norm_rows_have_mean_square_one() {
        let out = rms_norm(&numbers(1, 3 * 50), &[1.0; 50], 0.0);
        for row in out.chunks_exact(50) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / 50.0;
            assert!((mean - 1.0).abs() < 1e-12, "mean square {mean}");
        }
    }

    #[test]
    fn rms_norm_by_hand() {
        let rms = (25.0f64 / 2.0 + 0.5).sqrt();
        assert_close(&rms_norm(&[3.0, 4.0], &[1.0, 2.0], 0.5), &[3.0 / rms, 8.0 / rms]);
    }

    #[test]
    fn softmax_rows_sum_to_one_and_do_not_feel_a_shift() {
        let x = numbers(2, 4 * 30);
        let out = softmax(&x, 30);
        for row in out.chunks_exact(30) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(row.iter().all(|&weight| weight > 0.0));
        }
        let shifted: Vec<f64> = x.iter().map(|x| x + 1000.0).collect();
        assert_close(&softmax(&shifted, 30), &out);
    }

    #[test]
    fn gemm_is_the_sum_over_k() {
        let (m, n, k) = (5, 4, 3);
        let (x, y) = (numbers(3, m * k), numbers(4, k * n));
        let mut naive = Vec::new();
        for i in 0..m {
            for j in 0..n {
                naive.push((0..k).map(|l| x[i * k + l] * y[l * n + j]).sum::<f64>());
            }
        }
        assert_close(&gemm(&x, &y, k, n), &naive);
    }

    #[test]
    fn attention_with_equal_scores_is_the_mean_of_the_seen_values() {
        let (length, columns) = (4, 2);
        let (q, k) = (vec![0.0; 8], numbers(5, 8));
        let v = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0];
        let of = Attention { length, columns, causal: true, scale: 1.0 };
        let causal = attention(of, &q, &k, &v);
        assert_close(&causal, &[1.0, 10.0, 1.5, 15.0, 2.0, 20.0, 2.5, 25.0]);
        let full = attention(Attention { causal: false, ..of }, &q, &k, &v);
        assert_close(&full, &[2.5, 25.0].repeat(4));
    }

    #[test]
    fn attention_keeps_heads_apart() {
        let of = Attention { length: 6, columns: 4, causal: true, scale: 0.5 };
        let [q, k, v] = [6, 7, 8].map(|seed| numbers(seed, 2 * 24));
        let both = attention(of, &q, &k, &v);
        assert_close(&both[..24], &attention(of, &q[..24], &k[..24], &v[..24]));
        assert_close(&both[24..], &attention(of, &q[24..], &k[24..], &v[24..]));
    }

    #[test]
    fn attention_picks_the_value_of_a_key_that_wins() {
        let of = Attention { length: 3, columns: 1, causal: false, scale: 100.0 };
        let out = attention(of, &[1.0, 1.0, -1.0], &[-1.0, 0.0, 1.0], &[7.0, 8.0, 9.0]);
        assert_close(&out, &[9.0, 9.0, 7.0]);
    }

    #[test]
    fn relative_error_by_hand() {
        assert_eq!(relative_error(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
        assert_eq!(relative_error(&[3.0, 4.0], &[0.0, 0.0]), 5.0);
    }
}
