//! Reductions, running sums, the largest values, and what depends on a size alone.

use super::select::number;
use super::{Context, Types, axis, bail, float, rank};
use crate::ops::Reduction;
use crate::{DType, Dim, Op, RuleError, Shape, TensorType};

/// The dimensions `axes` (none named: all) drop out, or become 1 if `keep`.
pub(crate) fn reduce(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Reduce { how, axes, keep } = op else { bail!("not Reduce") };
    match how {
        Reduction::Mean => float("x", &x[0])?,
        Reduction::Sum | Reduction::Max | Reduction::Min | Reduction::Product => number("x", &x[0])?,
    }
    let mut gone = named(axes, &x[0])?;
    if axes.is_empty() {
        gone.fill(true);
    }
    let mut dims = Vec::with_capacity(gone.len());
    for (at, (dim, gone)) in x[0].shape.0.iter().zip(gone).enumerate() {
        if gone && dim.as_const() == Some(0) && matches!(how, Reduction::Max | Reduction::Min) {
            bail!("x has shape {}: dimension {at} is empty, and no elements have no largest or smallest", x[0].shape);
        }
        match (gone, keep) {
            (false, _) => dims.push(dim.clone()),
            (true, true) => dims.push(Dim::constant(1)),
            (true, false) => {}
        }
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// A row for each start.
pub(crate) fn segments(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::SegmentReduce { .. } = op else { bail!("not SegmentReduce") };
    float("x", &x[0])?;
    if x[0].shape.rank() == 0 {
        bail!("x is a scalar, expected rows [S, …]");
    }
    if !x[1].dtype.is_integer() {
        bail!("starts has the type {}, expected integers", x[1].dtype);
    }
    rank("starts", &x[1], 1)?;
    let mut dims = x[0].shape.0.clone();
    dims[0] = x[1].shape.0[0].clone();
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// Which dimensions of `t` the list `axes` names, each at most once; negative ones count from the
/// end.
pub(super) fn named(axes: &[i64], t: &TensorType) -> Result<Vec<bool>, RuleError> {
    let mut named = vec![false; t.shape.rank()];
    for &a in axes {
        let at = axis(a, t)?;
        if named[at] {
            bail!("axes name dimension {at} of {} twice", t.shape);
        }
        named[at] = true;
    }
    Ok(named)
}

/// The operand's type, which is a number.
pub(crate) fn cumulative(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::CumSum { axis: a } = op else { bail!("not CumSum") };
    axis(i64::from(*a), &x[0])?;
    number("x", &x[0])?;
    Ok(vec![x[0].clone()])
}

/// The dimension becomes `k`, which is no larger.
pub(crate) fn top_k(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::TopK { axis: a, k } = op else { bail!("not TopK") };
    let at = axis(i64::from(*a), &x[0])?;
    number("x", &x[0])?;
    let mut dims = x[0].shape.0.clone();
    if dims[at].as_const().is_some_and(|n| n < i64::from(*k)) {
        bail!("k is {k}, and dimension {at} of x {} has {} elements", x[0].shape, dims[at]);
    }
    dims[at] = Dim::constant(i64::from(*k));
    let shape = Shape(dims);
    Ok(vec![TensorType::new(x[0].dtype, shape.clone()), TensorType::i64(shape)])
}

/// A scalar.
pub(crate) fn size(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Size { axis: a } = op else { bail!("not Size") };
    axis(i64::from(*a), &x[0])?;
    Ok(vec![TensorType::i64(Shape::default())])
}

/// One number for each element of the dimension.
pub(crate) fn iota(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Iota { axis: a } = op else { bail!("not Iota") };
    let at = axis(i64::from(*a), &x[0])?;
    Ok(vec![TensorType::new(DType::I64, Shape(vec![x[0].shape.0[at].clone()]))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn reductions() {
        let reduce = |how, axes: &[i64], keep| Op::Reduce { how, axes: axes.into(), keep };
        let sum = |axes: &[i64], keep| reduce(Reduction::Sum, axes, keep);
        assert_eq!(good(sum(&[1], false), &[f("S, 4, T")]), "f32[S, T]");
        assert_eq!(good(sum(&[-1, 0], true), &[f("S, 4, T")]), "f32[1, 4, 1]");
        assert_eq!(good(sum(&[], false), &[t(DType::I32, "S, 4")]), "i32[]");
        assert_eq!(good(sum(&[], true), &[f("S, 4")]), "f32[1, 1]");
        assert_eq!(good(sum(&[], true), &[f("")]), "f32[]");
        assert_eq!(good(sum(&[1], false), &[f("S, 0")]), "f32[S]");
        bad(sum(&[2], false), &[f("S, 4")], "dimension 2 does not exist");
        bad(sum(&[0], false), &[f("")], "dimension 0 does not exist");
        bad(sum(&[1, -1], false), &[f("S, 4")], "axes name dimension 1 of [S, 4] twice");
        bad(sum(&[0], false), &[t(DType::Bool, "S")], "x has the type bool");
        bad(reduce(Reduction::Mean, &[0], false), &[t(DType::I64, "S")], "x has the type i64, expected real");
        for how in [Reduction::Max, Reduction::Min] {
            assert_eq!(good(reduce(how, &[0], false), &[f("S, 0")]), "f32[0]");
            bad(reduce(how, &[1], false), &[f("S, 0")], "dimension 1 is empty");
        }
        assert_eq!(good(reduce(Reduction::Product, &[0], false), &[f("0")]), "f32[]");
    }

    #[test]
    fn segments_become_rows() {
        let mean = Op::SegmentReduce { how: Reduction::Mean };
        let starts = t(DType::I64, "B");
        assert_eq!(good(mean.clone(), &[f("S, 4"), starts.clone()]), "f32[B, 4]");
        assert_eq!(good(mean.clone(), &[f("S"), starts.clone()]), "f32[B]");
        bad(mean.clone(), &[f(""), starts.clone()], "x is a scalar");
        bad(mean.clone(), &[t(DType::I64, "S, 4"), starts], "x has the type i64");
        bad(mean.clone(), &[f("S, 4"), f("B")], "starts has the type f32");
        bad(mean, &[f("S, 4"), t(DType::I64, "B, 1")], "starts has shape [B, 1]");
    }

    #[test]
    fn along_one_dimension() {
        let running = |axis| Op::CumSum { axis };
        assert_eq!(good(running(-1), &[t(DType::I64, "S, 4")]), "i64[S, 4]");
        bad(running(0), &[f("")], "dimension 0 does not exist");
        bad(running(0), &[t(DType::Bool, "S")], "x has the type bool");
        let top = |axis, k| Op::TopK { axis, k };
        assert_eq!(good(top(-1, 3), &[f("S, 4")]), "f32[S, 3] i64[S, 3]");
        assert_eq!(good(top(0, 3), &[t(DType::I8, "S, 4")]), "i8[3, 4] i64[3, 4]");
        bad(top(1, 5), &[f("S, 4")], "k is 5, and dimension 1 of x [S, 4] has 4 elements");
        bad(top(2, 1), &[f("S, 4")], "dimension 2 does not exist");
        bad(top(0, 1), &[t(DType::Bool, "S")], "x has the type bool");
        assert_eq!(good(Op::Size { axis: -2 }, &[t(DType::Bool, "S, 4")]), "i64[]");
        bad(Op::Size { axis: 0 }, &[f("")], "dimension 0 does not exist");
        assert_eq!(good(Op::Iota { axis: 0 }, &[f("P + S, 4")]), "i64[P + S]");
        bad(Op::Iota { axis: -3 }, &[f("P + S, 4")], "dimension -3 does not exist");
    }
}
