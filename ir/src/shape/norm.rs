//! Normalisations.

use super::{Context, Types, bail, epsilon, float, last, same_dim};
use crate::{Dim, Op, RuleError, Shape, TensorType};

/// x `[…, H]` with vectors of `H`.
pub(crate) fn last_dimension(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if let Op::RmsNorm { eps } | Op::LayerNorm { eps } = op {
        epsilon("eps", *eps)?;
    }
    check_gain("g", &x[0], &x[1])?;
    if let Some(b) = x.get(2) {
        check_gain("b", &x[0], b)?;
    }
    Ok(vec![x[0].clone()])
}

/// A vector as long as the last dimension of `x`.
pub(crate) fn check_gain(what: &str, x: &TensorType, g: &TensorType) -> Result<(), RuleError> {
    float("x", x)?;
    float(what, g)?;
    let width = last("x", x)?;
    if g.shape.rank() != 1 {
        bail!("{what} has shape {}, expected [{width}]", g.shape);
    }
    same_dim(&format!("the length of {what}"), &g.shape.0[0], width)
}

/// x `[N, C, …]` with vectors of `C`.
pub(crate) fn channels(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if let Op::BatchNorm { eps, .. } | Op::GroupNorm { eps, .. } | Op::InstanceNorm { eps } = op {
        epsilon("eps", *eps)?;
    }
    float("x", &x[0])?;
    let [_, c, ..] = x[0].shape.dims() else { bail!("x has shape {}, expected [N, C, …]", x[0].shape) };
    for (t, what) in x[1..].iter().zip(["g", "b", "mean", "var"]) {
        float(what, t)?;
        if t.shape != Shape::new([c.clone()]) {
            bail!("{what} has shape {}, expected [{c}]", t.shape);
        }
    }
    if let Op::GroupNorm { groups, .. } = op
        && (*groups == 0 || c.div_exact(&Dim::constant(i64::from(*groups))).is_none())
    {
        bail!("{c} channels are no multiple of {groups} groups");
    }
    Ok(vec![x[0].clone()])
}

/// scale and shift hold one row for all places `[C]`, one per sample `[B, C]` (where x has more than
/// two dimensions), or broadcast to x's own form `[B, S, C]`.
pub(crate) fn adaptive(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("x", &x[0])?;
    let width = last("x", &x[0])?;
    for (t, what) in x[1..].iter().zip(["scale", "shift"]) {
        float(what, t)?;
        let full = match (x[0].shape.dims(), t.shape.rank()) {
            ([batch, _, _, ..], 2) => Shape::new([batch.clone(), width.clone()]),
            _ => x[0].shape.clone(),
        };
        if super::elementwise::broadcast_shapes(&full, &t.shape).ok().as_ref() != Some(&full) {
            bail!("{what} has shape {}, which does not broadcast to {full} of x {}", t.shape, x[0].shape);
        }
    }
    Ok(vec![x[0].clone()])
}

/// x and skip of one type; the norm and the sum.
pub(crate) fn skip_norm(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if let Op::FusedSkipNorm { eps } = op {
        epsilon("eps", *eps)?;
    }
    if x[0] != x[1] {
        bail!("x is {} and skip is {}; they must agree", x[0], x[1]);
    }
    check_gain("g", &x[0], &x[2])?;
    Ok(vec![x[0].clone(), x[0].clone()])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn over_the_last_dimension() {
        let rms = |eps: f32| Op::RmsNorm { eps: eps.into() };
        assert_eq!(good(rms(1e-6), &[f("S, heads, 64"), f("64")]), "f32[S, heads, 64]");
        bad(rms(1e-6), &[f("S, 64"), f("32")], "the length of g is 32, expected 64");
        bad(rms(1e-6), &[f("S, 64"), f("1, 64")], "g has shape [1, 64], expected [64]");
        bad(rms(1e-6), &[t(DType::I64, "S, 64"), f("64")], "x has the type i64");
        bad(rms(f32::INFINITY), &[f("S, 64"), f("64")], "eps is inf");
        let layer = Op::LayerNorm { eps: 1e-5.into() };
        assert_eq!(good(layer.clone(), &[f("B, S, 64"), f("64"), f("64")]), "f32[B, S, 64]");
        bad(layer, &[f("B, S, 64"), f("64"), f("63")], "the length of b is 63");
        let skip = Op::FusedSkipNorm { eps: 1e-6.into() };
        assert_eq!(good(skip.clone(), &[f("S, 8"), f("S, 8"), f("8")]), "f32[S, 8] f32[S, 8]");
        bad(skip, &[f("S, 8"), f("8"), f("8")], "x is f32[S, 8] and skip is f32[8]");
        assert_eq!(good(Op::AdaLN, &[f("B, S, 8"), f("B, 1, 8"), f("8")]), "f32[B, S, 8]");
        assert_eq!(good(Op::AdaLN, &[f("B, S, 8"), f("B, 8"), f("1, 8")]), "f32[B, S, 8]");
        assert_eq!(good(Op::AdaLN, &[f("B, H, W, 8"), f("B, 8"), f("B, H, W, 8")]), "f32[B, H, W, 8]");
        assert_eq!(good(Op::AdaLN, &[f("S, 8"), f("S, 8"), f("1, 8")]), "f32[S, 8]");
        bad(Op::AdaLN, &[f("S, 8"), f("B, S, 8"), f("8")], "scale has shape [B, S, 8]");
        bad(Op::AdaLN, &[f("B, S, 8"), f("8"), f("S, 8")], "shift has shape [S, 8]");
    }

    #[test]
    fn over_channels() {
        let vectors = [f("N, 8, H, W"), f("8"), f("8"), f("8"), f("8")];
        let batch = Op::BatchNorm { eps: 1e-5.into(), momentum: 0.1.into() };
        assert_eq!(good(batch.clone(), &vectors), "f32[N, 8, H, W]");
        bad(batch, &vectors[..4], "found 4");
        let group = |groups| Op::GroupNorm { groups, eps: 1e-5.into() };
        assert_eq!(good(group(4), &vectors[..3]), "f32[N, 8, H, W]");
        bad(group(3), &vectors[..3], "8 channels are no multiple of 3 groups");
        bad(group(0), &vectors[..3], "0 groups");
        let each = Op::InstanceNorm { eps: 1e-5.into() };
        assert_eq!(good(each.clone(), &vectors[..3]), "f32[N, 8, H, W]");
        bad(each.clone(), &[f("8"), f("8"), f("8")], "expected [N, C, …]");
        bad(each, &[f("N, 8, L"), f("8"), f("9")], "b has shape [9], expected [8]");
    }
}
