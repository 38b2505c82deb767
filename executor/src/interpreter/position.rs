//! Embeddings of positions and times, and schedules over them.

use super::elementwise::{binary, each};
use super::host::{tensor, values};
use super::layout::{operand, token_embed};
use super::limits::elements;
use crate::error::Result;
use candle_core::{DType, Tensor};
use std::f64::consts::FRAC_PI_2;
use tallow_compiler::Step;
use tallow_ir::Op;

/// From this distance on all share the last bucket of their direction.
const MAX_DISTANCE: u32 = 128;

/// Sines and cosines alternating: `y[…, 2j] = sin(t·f)`, `y[…, 2j + 1] = cos(t·f)` with
/// `f = 10000^(−2j/dim)`.
pub(super) fn sinusoidal(step: &Step, t: &Tensor, dim: u32) -> Result<Tensor> {
    let mut dims = t.dims().to_vec();
    dims.push(dim as usize);
    let mut y = Vec::with_capacity(elements(step, &dims)?);
    for t in numbers(t)? {
        for pair in 0..dim / 2 {
            let angle = t * 10000f64.powf(-2.0 * f64::from(pair) / f64::from(dim));
            y.extend([angle.sin() as f32, angle.cos() as f32]);
        }
    }
    tensor(y, &dims)
}

/// T5's bias `[heads, q_len, k_len]` from a table `[buckets, heads]`, bidirectional: query `i` and
/// key `j` read the row of the bucket of `j − i`.
///
/// # Errors
/// Lengths that are no whole numbers, are negative or make too large a result.
pub(super) fn relative_bias(step: &Step, x: &[Tensor], buckets: u32) -> Result<Tensor> {
    let length = |what: &str, t: &Tensor| -> Result<usize> {
        match numbers(t)?.as_slice() {
            &[n] if n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&n) => Ok(n as usize),
            other => Err(operand(step, format!("{what} is {other:?}, expected one whole number, not negative"))),
        }
    };
    let (queries, keys) = (length("q_len", &x[0])?, length("k_len", &x[1])?);
    let (table, heads) = (values::<f32>(&x[2])?, x[2].dim(1)?);
    let dims = [heads, queries, keys];
    let mut y = Vec::with_capacity(elements(step, &dims)?);
    // The row of each distance, from that of the last query and the first key on.
    let rows: Vec<usize> = (1 - queries as i64..keys as i64).map(|d| bucket(d, buckets) as usize).collect();
    for head in 0..heads {
        for i in 1..=queries {
            y.extend(rows[queries - i..][..keys].iter().map(|row| table[row * heads + head]));
        }
    }
    tensor(y, &dims)
}

/// The bucket of a distance: half of them for keys after the query; of each half, half for exact
/// distances and the rest at logarithmic steps up to [`MAX_DISTANCE`]. In single precision, as T5
/// computes it, since the steps round down.
fn bucket(distance: i64, buckets: u32) -> u32 {
    let half = buckets / 2;
    let start = if distance > 0 { half } else { 0 };
    let distance = u32::try_from(distance.unsigned_abs()).unwrap_or(u32::MAX);
    let exact = half / 2;
    if distance < exact {
        return start + distance;
    }
    if distance >= MAX_DISTANCE || exact >= MAX_DISTANCE {
        return start + half - 1;
    }
    let ratio = (distance as f32 / exact as f32).ln();
    let span = (f64::from(MAX_DISTANCE) / f64::from(exact)).ln() as f32;
    let place = ratio / span * (half - exact) as f32;
    start + (exact + place as u32).min(half - 1)
}

/// Rows of `table` at integer positions; or, added to real `x` `[…, S, H]`, its first `S` rows.
///
/// # Errors
/// Places past the end of the table.
pub(super) fn pos_embed(step: &Step, x: &Tensor, table: &Tensor) -> Result<Tensor> {
    if x.dtype() != DType::F32 {
        return token_embed(step, x, table);
    }
    let places = x.dim(x.rank().saturating_sub(2))?;
    let rows = table.dim(0)?;
    if places > rows {
        return Err(operand(step, format!("x has {places} places, the table has rows for {rows}")));
    }
    binary(step, &Op::Add, x, &table.narrow(0, 0, places)?)
}

/// `α = cos(πt/2)` and `σ = sin(πt/2)`.
pub(super) fn noise_schedule(t: &Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![each(t, |t| (t * FRAC_PI_2).cos())?, each(t, |t| (t * FRAC_PI_2).sin())?])
}

/// The values of a tensor of reals or integers, in double precision.
fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    values(&t.to_dtype(DType::F64)?)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn distances_fall_into_every_bucket_and_never_outside() {
        for buckets in [4, 5, 6, 32, 33, 64, 100, 511, 512, 600, u32::MAX] {
            let half = buckets / 2;
            let mut last = 0;
            for distance in 0..400 {
                let (before, after) = (bucket(-distance, buckets), bucket(distance, buckets));
                assert!(before < half && after < 2 * half, "{buckets} {distance}");
                assert!(distance == 0 || after == before + half);
                assert!(before >= last);
                last = before;
            }
            assert_eq!(bucket(i64::MIN, buckets), half - 1);
            assert_eq!(bucket(i64::MAX, buckets), 2 * half - 1);
        }
    }
}
