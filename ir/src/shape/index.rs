//! Lookup by index, and the reverse order.

use super::elementwise::unknown;
use super::reduce::named;
use super::{Context, Types, axis, bail};
use crate::{DType, Dim, Op, RuleError, Shape, TensorType};

/// The shape of `index` takes the place of the dimension.
pub(crate) fn gather(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Gather { axis: a } = op else { bail!("not Gather") };
    let at = axis(i64::from(*a), &x[0])?;
    indices(&x[1])?;
    let mut dims = x[0].shape.0.clone();
    dims.splice(at..=at, x[1].shape.0.iter().cloned());
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// x and index have one rank; beside the axis, index is no larger. The result has the shape of
/// `index`.
pub(crate) fn gather_elements(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::GatherElements { axis: a } = op else { bail!("not GatherElements") };
    let at = axis(i64::from(*a), &x[0])?;
    indices(&x[1])?;
    if x[0].shape.rank() != x[1].shape.rank() {
        bail!("index has shape {}, and x {}; both need the same number of dimensions", x[1].shape, x[0].shape);
    }
    for (i, (have, want)) in x[0].shape.0.iter().zip(&x[1].shape.0).enumerate() {
        if i != at && !within(want, have) {
            bail!(
                "index has shape {}, and x {}: dimension {i} must agree, or be a smaller number in index",
                x[1].shape,
                x[0].shape
            );
        }
    }
    Ok(vec![TensorType::new(x[0].dtype, x[1].shape.clone())])
}

/// Whether `small` is known to be at most `large`, or only running tells.
fn within(small: &Dim, large: &Dim) -> bool {
    match (small.as_const(), large.as_const()) {
        (Some(a), Some(b)) => a <= b,
        _ => small == large || unknown(small) || unknown(large),
    }
}

/// Requires integers, or real numbers, which must be whole when they are used.
fn indices(index: &TensorType) -> Result<(), RuleError> {
    if index.dtype == DType::Bool {
        bail!("index has the type bool, expected integers or whole real numbers");
    }
    Ok(())
}

/// The operand's type.
pub(crate) fn flip(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Flip { axes } = op else { bail!("not Flip") };
    named(axes, &x[0])?;
    Ok(vec![x[0].clone()])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    fn i(dims: &str) -> TensorType {
        t(DType::I64, dims)
    }

    #[test]
    fn lookups() {
        let gather = |axis| Op::Gather { axis };
        assert_eq!(good(gather(0), &[f("10, 4"), i("S, T")]), "f32[S, T, 4]");
        assert_eq!(good(gather(-1), &[t(DType::Bool, "S, 10"), i("")]), "bool[S]");
        assert_eq!(good(gather(1), &[f("S, 10, 4"), f("3")]), "f32[S, 3, 4]");
        bad(gather(2), &[f("10, 4"), i("S")], "dimension 2 does not exist");
        bad(gather(0), &[f(""), i("S")], "dimension 0 does not exist");
        bad(gather(0), &[f("10, 4"), t(DType::Bool, "S")], "index has the type bool");
        let many = "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1";
        bad(gather(0), &[f("10, 4"), i(many)], "17 dimensions");
        let each = |axis| Op::GatherElements { axis };
        assert_eq!(good(each(1), &[f("S, 10"), i("S, T")]), "f32[S, T]");
        assert_eq!(good(each(-2), &[f("10, 4"), i("7, 3")]), "f32[7, 3]");
        assert_eq!(good(each(0), &[f("10, ?n"), i("7, 3")]), "f32[7, 3]");
        bad(each(0), &[f("10, 4"), i("7, 5")], "dimension 1 must agree");
        bad(each(0), &[f("10, T"), i("7, S")], "dimension 1 must agree");
        bad(each(0), &[f("10, 4"), i("7")], "the same number of dimensions");
        bad(each(0), &[f("10"), t(DType::Bool, "7")], "index has the type bool");
        bad(each(1), &[f("10"), i("7")], "dimension 1 does not exist");
    }

    #[test]
    fn reversals() {
        let flip = |axes: &[i64]| Op::Flip { axes: axes.into() };
        assert_eq!(good(flip(&[0, -1]), &[i("S, 4")]), "i64[S, 4]");
        assert_eq!(good(flip(&[]), &[f("")]), "f32[]");
        bad(flip(&[2]), &[f("S, 4")], "dimension 2 does not exist");
        bad(flip(&[1, 1]), &[f("S, 4")], "axes name dimension 1 of [S, 4] twice");
    }
}
