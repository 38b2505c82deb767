//! Matrix products and their kin.

use super::{Context, Types, bail, epsilon, float, last, overflow, rank, same_dim, with_last};
use crate::{Dim, Op, RuleError, Shape, TensorType};

/// x `[…, K]`, W `[N, K]` gives `[…, N]`.
pub(crate) fn matmul(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    Ok(vec![product(&x[0], &x[1])?])
}

/// The type of `x · Wᵀ`.
pub(crate) fn product(x: &TensorType, w: &TensorType) -> Result<TensorType, RuleError> {
    float("x", x)?;
    float("W", w)?;
    rank("W", w, 2)?;
    let k = last("x", x)?;
    same_dim("the last dimension of W", &w.shape.0[1], k)?;
    Ok(with_last(x, w.shape.0[0].clone()))
}

/// x `[…, K]`, W `[N, K]`, A `[rank, K]`, B `[N, rank]`.
pub(crate) fn lora(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::LoraApply { rank: r, alpha } = op else { bail!("not LoraApply") };
    if *r == 0 || !alpha.get().is_finite() {
        bail!("rank is {r} and alpha {}, expected at least 1 and a finite number", alpha.get());
    }
    let y = product(&x[0], &x[1])?;
    let low = product(&x[0], &x[2])?;
    same_dim("the number of rows of A", last("A·x", &low)?, &Dim::constant(i64::from(*r)))?;
    let added = product(&low, &x[3])?;
    if added != y {
        bail!("the low-rank part gives {added}, W gives {y}");
    }
    Ok(vec![y])
}

/// Sizes multiply; both operands are matrices.
pub(crate) fn kron(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    for (what, t) in ["a", "b"].into_iter().zip(x) {
        float(what, t)?;
        rank(what, t, 2)?;
    }
    let dims: Option<Vec<Dim>> = x[0].shape.0.iter().zip(&x[1].shape.0).map(|(a, b)| a.mul(b)).collect();
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims.ok_or_else(overflow)?))])
}

/// The last two dimensions agree.
pub(crate) fn inverse(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("a", &x[0])?;
    match x[0].shape.dims() {
        [.., a, b] if a == b => Ok(vec![x[0].clone()]),
        _ => bail!("a has shape {}, expected square matrices", x[0].shape),
    }
}

/// `Matmul(RmsNorm(x, g), W)`.
pub(crate) fn norm_matmul(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if let Op::FusedNormMatmul { eps } = op {
        epsilon("eps", *eps)?;
    }
    super::norm::check_gain("g", &x[0], &x[1])?;
    Ok(vec![product(&x[0], &x[2])?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn products() {
        assert_eq!(good(Op::Matmul, &[f("S, 4"), t(DType::Q4K, "8, 4")]), "f32[S, 8]");
        assert_eq!(good(Op::Matmul, &[f("B, S, K"), f("8, K")]), "f32[B, S, 8]");
        bad(Op::Matmul, &[f("S, 4"), f("4, 8")], "the last dimension of W is 8, expected 4");
        bad(Op::Matmul, &[f("S, 4"), f("8")], "W has shape [8], expected 2 dimensions");
        bad(Op::Matmul, &[f(""), f("8, 4")], "x is a scalar");
        bad(Op::Matmul, &[t(DType::I64, "S, 4"), f("8, 4")], "x has the type i64");
        let lora = |rank| Op::LoraApply { rank, alpha: 16.0.into() };
        let x = [f("S, 4"), f("8, 4"), f("2, 4"), f("8, 2")];
        assert_eq!(good(lora(2), &x), "f32[S, 8]");
        bad(lora(3), &x, "rows of A is 2, expected 3");
        bad(lora(0), &x, "rank is 0");
        bad(lora(2), &[f("S, 4"), f("8, 4"), f("2, 4"), f("9, 2")], "the low-rank part");
        let fused = |eps: f32| Op::FusedNormMatmul { eps: eps.into() };
        assert_eq!(good(fused(1e-6), &[f("S, 4"), f("4"), f("8, 4")]), "f32[S, 8]");
        bad(fused(1e-6), &[f("S, 4"), f("5"), f("8, 4")], "the length of g is 5");
        bad(fused(-1.0), &[f("S, 4"), f("4"), f("8, 4")], "eps is -1");
    }

    #[test]
    fn kronecker_and_inverse() {
        assert_eq!(good(Op::Kron, &[f("2, S"), f("3, 4")]), "f32[6, 4*S]");
        bad(Op::Kron, &[f("2, S"), f("3")], "b has shape [3], expected 2");
        assert_eq!(good(Op::MatrixInverse, &[f("B, N, N")]), "f32[B, N, N]");
        bad(Op::MatrixInverse, &[f("2, 3")], "expected square matrices");
        bad(Op::MatrixInverse, &[f("2")], "expected square matrices");
        bad(Op::MatrixInverse, &[t(DType::I64, "2, 2")], "a has the type i64");
    }
}
