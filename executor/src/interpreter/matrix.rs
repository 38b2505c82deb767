//! Matrix products and inverses.

use super::host::{tensor, values};
use super::layout::operand;
use super::limits::{self, elements};
use crate::error::Result;
use candle_core::{D, Tensor};
use tallow_compiler::Step;

/// x `[…, K]` times W `[N, K]` transposed.
pub(super) fn matmul(step: &Step, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let mut dims = x.dims().to_vec();
    let k = x.dim(D::Minus1)?;
    if let Some(last) = dims.last_mut() {
        *last = w.dim(0)?;
    }
    limits::product(step, &dims)?;
    let rows: usize = dims.iter().rev().skip(1).product();
    let y = x.contiguous()?.reshape((rows, k))?.matmul(&w.t()?)?;
    Ok(y.reshape(dims)?)
}

/// `x·Wᵀ + (alpha/rank) · x·Aᵀ·Bᵀ`.
pub(super) fn lora(step: &Step, x: &[Tensor], rank: u32, alpha: f32) -> Result<Tensor> {
    let low = matmul(step, &matmul(step, &x[0], &x[2])?, &x[3])?;
    Ok((matmul(step, &x[0], &x[1])? + (low * f64::from(alpha / rank as f32))?)?)
}

/// Each value of `a` times all of `b`, as a block in its place.
pub(super) fn kron(step: &Step, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ((p, q), (r, s)) = (a.dims2()?, b.dims2()?);
    elements(step, &[p, q, r, s])?;
    let (a, b) = (a.contiguous()?.reshape((p, 1, q, 1))?, b.contiguous()?.reshape((1, r, 1, s))?);
    Ok(a.broadcast_mul(&b)?.reshape((p * r, q * s))?)
}

/// Inverse of each matrix `[…, n, n]`.
///
/// # Errors
/// A matrix that is singular, or so near to it that double precision cannot tell, by its place; one
/// that holds a value that is not finite; an inverse beyond the range of `f32`.
pub(super) fn inverse(step: &Step, a: &Tensor) -> Result<Tensor> {
    let n = a.dim(D::Minus1)?;
    let mut y = values::<f32>(a)?;
    for (i, matrix) in y.chunks_mut((n * n).max(1)).enumerate() {
        let fail = |cause: &str| {
            let place = if a.rank() > 2 { format!("matrix {i} of a {:?}", a.dims()) } else { "a".to_owned() };
            operand(step, format!("{place} {cause}"))
        };
        if let Some(value) = matrix.iter().find(|v| !v.is_finite()) {
            return Err(fail(&format!("holds {value}; only finite matrices have an inverse")));
        }
        let wide: Vec<f64> = matrix.iter().map(|&v| f64::from(v)).collect();
        let Some(inverse) = invert(&wide, n) else { return Err(fail("is singular and has no inverse")) };
        for (to, from) in matrix.iter_mut().zip(inverse) {
            *to = from as f32;
            if !to.is_finite() {
                return Err(fail(&format!("has an inverse with the value {from:e}, beyond single precision")));
            }
        }
    }
    tensor(y, a.dims())
}

/// The inverse of a row-major matrix by Gauss-Jordan elimination with partial pivoting; `None` where
/// a pivot is no larger than its rounding error. Rows are scaled by a power of two to a largest value near 1
/// first, so that neither their sizes nor those of columns make a matrix look singular.
fn invert(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let width = 2 * n;
    let mut rows = vec![0f64; n * width];
    for i in 0..n {
        let top = a[i * n..(i + 1) * n].iter().fold(0f64, |m, v| m.max(v.abs()));
        if top == 0.0 {
            return None;
        }
        let scale = top.log2().floor().exp2();
        for j in 0..n {
            rows[i * width + j] = a[i * n + j] / scale;
        }
        rows[i * width + n + i] = 1.0 / scale;
    }
    let largest = |column: usize| (0..n).fold(0f64, |m, i| m.max(rows[i * width + column].abs()));
    let noise: Vec<f64> = (0..n).map(|column| largest(column) * f64::EPSILON * n as f64).collect();
    for column in 0..n {
        let size = |i: usize, rows: &[f64]| rows[i * width + column].abs();
        let pivot = (column..n).fold(column, |best, i| if size(i, &rows) > size(best, &rows) { i } else { best });
        if size(pivot, &rows) <= noise[column] {
            return None;
        }
        for j in 0..width {
            rows.swap(pivot * width + j, column * width + j);
        }
        let by = rows[column * width + column];
        rows[column * width..(column + 1) * width].iter_mut().for_each(|v| *v /= by);
        let leading = rows[column * width..(column + 1) * width].to_vec();
        for (i, row) in rows.chunks_mut(width).enumerate() {
            let factor = row[column];
            if i != column && factor != 0.0 {
                row.iter_mut().zip(&leading).for_each(|(v, lead)| *v -= factor * lead);
            }
        }
    }
    Some(rows.chunks(width.max(1)).flat_map(|row| row[n..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverts_whatever_the_scale_and_knows_singular_matrices() {
        assert_eq!(invert(&[0.0, 2.0, 4.0, 0.0], 2).unwrap(), [0.0, 0.25, 0.5, 0.0]);
        let small = (-100f64).exp2();
        assert_eq!(invert(&[1.0, 0.0, 0.0, small], 2).unwrap(), [1.0, 0.0, 0.0, 1.0 / small]);
        let y = invert(&[1.0, 1.0, 1e-20, 2e-20], 2).unwrap();
        for (found, wanted) in y.iter().zip([2.0, -1e20, -1.0, 1e20]) {
            assert!((found / wanted - 1.0).abs() < 1e-12, "{y:?}");
        }
        assert!(invert(&[1.0, 2.0, 2.0, 4.0], 2).is_none());
        assert!(invert(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 3).is_none());
        assert!(invert(&[0.0; 4], 2).is_none());
        assert!(invert(&[], 0).unwrap().is_empty());
    }
}
