//! A table of positions on a grid, for a grid of another size: bicubic interpolation with half-pixel centres and without
//! antialiasing (Keys 1981, with a = −0.75), a product with a matrix in each direction.

use crate::families::parts::{Built, Parts};
use tallow_ir::ops::Real;
use tallow_ir::{DType, Op, Value};

const A: f64 = -0.75;

/// The shares of `from` places in each of `to` places, row by row.
fn shares(from: u32, to: u32) -> Vec<Real> {
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let scale = f64::from(from) / f64::from(to);
    let last = i64::from(from) - 1;
    let mut all = vec![0.0_f64; from as usize * to as usize];
    for (place, row) in all.chunks_exact_mut(from as usize).enumerate() {
        let centre = (place as f64 + 0.5) * scale - 0.5;
        let t = centre - centre.floor();
        for (tap, share) in (-1..).zip([far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]) {
            // Beyond the edge its place goes on.
            row[(centre.floor() as i64 + tap).clamp(0, last) as usize] += share;
        }
    }
    all.into_iter().map(|share| (share as f32).into()).collect()
}

/// The table `[from[0] · from[1], width]` as one of `[1, to[0] · to[1], width]`.
pub(super) fn resized(parts: &mut Parts<'_>, table: Value, from: [u32; 2], to: [u32; 2], width: u32) -> Built {
    let ([rows, columns], [to_rows, to_columns]) = (from.map(i64::from), to.map(i64::from));
    let width = i64::from(width);
    let mut matrix = |to: u32, from: u32| {
        let op = Op::Constant { dtype: DType::F32, shape: vec![to.into(), from.into()], values: shares(from, to) };
        parts.graph.op(op, &[])
    };
    let (down, across) = (matrix(to[0], from[0])?, matrix(to[1], from[1])?);
    let product = Op::BatchMatmul { transpose_b: false };
    let x = parts.graph.op(Op::Reshape { shape: vec![rows, columns * width] }, &[table])?;
    let x = parts.graph.op(product.clone(), &[down, x])?;
    let x = parts.graph.op(Op::Reshape { shape: vec![to_rows, columns, width] }, &[x])?;
    let x = parts.graph.op(product, &[across, x])?;
    parts.op(Op::Reshape { shape: vec![1, to_rows * to_columns, width] }, &[x], "positions_resized")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one_and_the_same_size_stays() {
        let row = |from, to, at: usize| -> Vec<f32> {
            shares(from, to).chunks(from as usize).nth(at).unwrap().iter().map(|x| x.get()).collect()
        };
        assert_eq!(row(3, 3, 1), [0.0, 1.0, 0.0]);
        for at in 0..5 {
            let sum: f32 = row(3, 5, at).iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        // The middle between the first two of four: −0.09375, 0.59375 twice, −0.09375, the first clamped.
        assert_eq!(row(4, 2, 0), [0.5, 0.59375, -0.09375, 0.0]);
    }
}
