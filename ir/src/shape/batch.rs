//! Products of stacks of matrices.

use super::elementwise::{broadcast_shapes, unknown};
use super::{Context, Types, bail, float};
use crate::{Op, Shape, TensorType};

/// a `[…, M, K]` and b `[…, K, N]`, or `[…, N, K]` if transposed, give `[…, M, N]`.
pub(crate) fn batch_matmul(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::BatchMatmul { transpose_b } = op else { bail!("not BatchMatmul") };
    for (what, t) in ["a", "b"].into_iter().zip(x) {
        float(what, t)?;
        if t.shape.rank() < 2 {
            bail!("{what} has shape {}, expected at least 2 dimensions", t.shape);
        }
    }
    let ([a_batch @ .., m, k], [b_batch @ .., p, q]) = (x[0].shape.dims(), x[1].shape.dims()) else {
        bail!("a and b need at least 2 dimensions")
    };
    let (inner, n) = if *transpose_b { (q, p) } else { (p, q) };
    if k != inner && !unknown(k) && !unknown(inner) {
        bail!("a has shape {} and b {}: the inner sizes are {k} and {inner}, which must agree", x[0].shape, x[1].shape);
    }
    let mut shape = broadcast_shapes(&Shape(a_batch.to_vec()), &Shape(b_batch.to_vec()))?;
    shape.0.extend([m.clone(), n.clone()]);
    Ok(vec![TensorType::new(x[0].dtype, shape)])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn stacks_of_matrices() {
        let plain = Op::BatchMatmul { transpose_b: false };
        let turned = Op::BatchMatmul { transpose_b: true };
        assert_eq!(good(plain.clone(), &[f("S, 4"), f("4, T")]), "f32[S, T]");
        assert_eq!(good(turned.clone(), &[f("B, H, S, 4"), f("H, T, 4")]), "f32[B, H, S, T]");
        assert_eq!(good(plain.clone(), &[f("B, 1, S, 0"), f("H, 0, T")]), "f32[B, H, S, T]");
        assert_eq!(good(plain.clone(), &[f("S, ?n"), f("4, T")]), "f32[S, T]");
        bad(turned, &[f("S, 4"), f("4, T")], "the inner sizes are 4 and T");
        bad(plain.clone(), &[f("4"), f("4, T")], "a has shape [4], expected at least 2");
        bad(plain.clone(), &[f("S, 4"), f("4")], "b has shape [4], expected at least 2");
        bad(plain.clone(), &[f("B, S, 4"), f("C, 4, T")], "do not broadcast: B against C");
        bad(plain, &[t(DType::I64, "S, 4"), f("4, T")], "a has the type i64");
    }
}
