//! How far two tensors are apart.

use crate::Result;
use tallow_executor::{DType, ExecutorError, Tensor};

/// Rows shorter than this have no scale of their own.
const ROW: usize = 16;
/// The scale of a row is at least this part of that of the whole value, so that a row of near zeros is not held to
/// more digits than the operations before it keep.
const LEAST_ROW: f64 = 0.01;
/// The least scale: below it all numbers count as zero.
const LEAST: f64 = 1e-12;

/// The error of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// Number of elements.
    pub elements: usize,
    /// The largest `|a − b|`.
    pub max_abs: f64,
    /// The largest `|a − b|` over the scale there: the larger of the reference's `|a|` and the root mean square of its
    /// row (of the whole value where rows are shorter than 16). Of integers and truth values 1 where any differs.
    pub relative: f64,
    /// The cosine of the angle between both; 1 where both are zero.
    pub cosine: f64,
    /// Elements that are NaN on one side alone.
    pub nan: usize,
    /// Elements that are infinite on one side alone, or with different signs.
    pub infinite: usize,
    /// Elements that differ at all.
    pub differing: usize,
    /// Number (row-major) of the element with the largest relative error.
    pub at: usize,
}

impl Measure {
    /// Compares two tensors of the same shape; `reference` is the one that errors are relative to.
    ///
    /// # Errors
    /// Element types that do not convert.
    pub fn of(reference: &Tensor, other: &Tensor) -> Result<Measure> {
        let real = |t: &Tensor| t.dtype().is_float();
        if !real(reference) && !real(other) {
            let whole = |t: &Tensor| -> Result<Vec<i64>> {
                let flat = t.flatten_all().and_then(|t| t.to_dtype(DType::I64)).and_then(|t| t.to_vec1());
                Ok(flat.map_err(ExecutorError::from)?)
            };
            return Ok(integers(&whole(reference)?, &whole(other)?));
        }
        let numbers = |t: &Tensor| -> Result<Vec<f32>> {
            let flat = t.flatten_all().and_then(|t| t.to_dtype(DType::F32)).and_then(|t| t.to_vec1());
            Ok(flat.map_err(ExecutorError::from)?)
        };
        let row = reference.dims().last().copied().unwrap_or(1);
        Ok(reals(&numbers(reference)?, &numbers(other)?, row))
    }
}

fn integers(a: &[i64], b: &[i64]) -> Measure {
    let mut m = Measure { elements: a.len(), cosine: 1.0, ..Measure::default() };
    for (at, (&x, &y)) in a.iter().zip(b).enumerate() {
        if x == y {
            continue;
        }
        if m.differing == 0 {
            (m.at, m.relative) = (at, 1.0);
        }
        m.differing += 1;
        m.max_abs = m.max_abs.max(x.abs_diff(y) as f64);
    }
    let real = |v: &[i64]| v.iter().map(|&n| n as f64).collect::<Vec<_>>();
    m.cosine = cosine(real(a).into_iter().zip(real(b)));
    m
}

fn reals(a: &[f32], b: &[f32], row: usize) -> Measure {
    let mut m = Measure { elements: a.len(), ..Measure::default() };
    let whole = rms(a);
    let row = if row < ROW { a.len() } else { row };
    for (r, (x, y)) in a.chunks(row.max(1)).zip(b.chunks(row.max(1))).enumerate() {
        let scale = rms(x).max(LEAST_ROW * whole).max(LEAST);
        for (i, (&p, &q)) in x.iter().zip(y).enumerate() {
            // Equal infinities among them.
            if p == q || (p.is_nan() && q.is_nan()) {
                continue;
            }
            m.differing += 1;
            if p.is_nan() || q.is_nan() {
                m.nan += 1;
            } else if p.is_infinite() || q.is_infinite() {
                m.infinite += 1;
            } else {
                let (p, q) = (f64::from(p), f64::from(q));
                let apart = (p - q).abs();
                m.max_abs = m.max_abs.max(apart);
                let relative = apart / scale.max(p.abs());
                if relative > m.relative {
                    (m.relative, m.at) = (relative, r * row + i);
                }
            }
        }
    }
    m.cosine = cosine(a.iter().zip(b).map(|(&x, &y)| (f64::from(x), f64::from(y))));
    m
}

/// Root mean square of what is finite.
fn rms(values: &[f32]) -> f64 {
    let finite = values.iter().filter(|v| v.is_finite());
    let (sum, count) = finite.fold((0f64, 0usize), |(s, n), &v| (s + f64::from(v) * f64::from(v), n + 1));
    (sum / count.max(1) as f64).sqrt()
}

/// Over the places where both are finite.
fn cosine(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let finite = pairs.filter(|(x, y)| x.is_finite() && y.is_finite());
    let (xy, xx, yy) = finite.fold((0.0, 0.0, 0.0), |(p, q, r), (x, y)| (p + x * y, q + x * x, r + y * y));
    match (xx > 0.0, yy > 0.0) {
        (true, true) => (xy / (f64::sqrt(xx) * f64::sqrt(yy))).clamp(-1.0, 1.0),
        (false, false) => 1.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_executor::Device;

    fn of(a: &[f32], b: &[f32]) -> Measure {
        let tensor = |v: &[f32]| Tensor::from_slice(v, v.len(), &Device::Cpu).unwrap();
        Measure::of(&tensor(a), &tensor(b)).unwrap()
    }

    #[test]
    fn errors_are_relative_to_the_scale() {
        let m = of(&[3.0, 4.0], &[3.0, 4.5]);
        assert_eq!((m.max_abs, m.differing, m.at), (0.5, 1, 1));
        // |4| is more than the root mean square.
        assert!((m.relative - 0.125).abs() < 1e-12);
        let m = of(&[0.0, 0.0], &[0.0, 1.0]);
        assert!(m.relative > 1e9 && m.cosine == 0.0);
        assert_eq!(of(&[0.0], &[-0.0]), Measure { elements: 1, cosine: 1.0, ..Measure::default() });
        assert_eq!(of(&[], &[]).relative, 0.0);
    }

    #[test]
    fn a_row_far_below_another_is_held_to_its_own_scale() {
        let mut a = vec![1000f32; 16];
        a.extend([20.0; 16]);
        let mut b = a.clone();
        b[20] = 20.2;
        let tensor = |v: &[f32]| Tensor::from_slice(v, (2, 16), &Device::Cpu).unwrap();
        let m = Measure::of(&tensor(&a), &tensor(&b)).unwrap();
        assert!((m.relative - 0.01).abs() < 1e-4, "{m:?}");
        assert_eq!(m.at, 20);
    }

    #[test]
    fn nan_and_infinity_count_where_one_side_has_them() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let m = of(&[nan, inf, -inf, 1.0, 1.0, inf], &[nan, inf, -inf, nan, inf, -inf]);
        assert_eq!((m.nan, m.infinite, m.differing, m.max_abs), (1, 2, 3, 0.0));
    }

    #[test]
    fn whole_numbers_are_compared_exactly() {
        let tensor = |v: &[i64]| Tensor::from_slice(v, v.len(), &Device::Cpu).unwrap();
        let big = 1i64 << 60;
        let m = Measure::of(&tensor(&[1, big]), &tensor(&[1, big + 1])).unwrap();
        assert_eq!((m.differing, m.max_abs, m.relative, m.at), (1, 1.0, 1.0, 1));
    }
}
