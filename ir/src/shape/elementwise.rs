//! Elementwise operations: one operand, broadcasting pairs, gates, and those along one dimension.

use super::{Context, Types, axis, bail, float, last, matrix::product, overflow};
use crate::{DType, Dim, Op, RuleError, Shape, TensorType};

/// The result has the operand's type, which is a number. Numbers of the payload must suit it:
/// integers take whole ones.
pub(crate) fn same(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if x[0].dtype == DType::Bool {
        bail!("x has the type bool, expected numbers");
    }
    let whole = |what: &str, value: f32| {
        // Up to 2⁶³, so that it is an i64.
        if !x[0].dtype.is_integer() || (value.fract() == 0.0 && value.abs() < 9.223_372e18) {
            return Ok(());
        }
        Err(RuleError::new(format!("{what} is {value} and x has the type {}: use a whole number", x[0].dtype)))
    };
    if let Op::AddScalar { value } | Op::MulScalar { value } = op {
        whole("value", value.get())?;
    }
    if let Op::Clamp { min, max } = op {
        for (what, bound) in [("min", min), ("max", max)] {
            match bound.map(|b| b.get()) {
                Some(bound) if bound.is_nan() => bail!("{what} is NaN, expected a number or none"),
                // An infinite bound binds nothing.
                Some(bound) if bound.is_finite() => whole(what, bound)?,
                Some(_) | None => {}
            }
        }
        if let (Some(min), Some(max)) = (min, max)
            && min.get() > max.get()
        {
            bail!("min {} is above max {}", min.get(), max.get());
        }
    }
    Ok(vec![x[0].clone()])
}

/// The result has the operand's type, which is real.
pub(crate) fn real(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("x", &x[0])?;
    Ok(vec![x[0].clone()])
}

/// NumPy broadcasting over all operands, which are numbers.
pub(crate) fn broadcast(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if x[0].dtype == DType::Bool {
        bail!("the operands have the type bool, expected numbers");
    }
    let mut shape = x[0].shape.clone();
    for other in &x[1..] {
        shape = broadcast_shapes(&shape, &other.shape)?;
        if other.dtype != x[0].dtype {
            bail!("operands have the types {} and {}; cast one", x[0].dtype, other.dtype);
        }
    }
    Ok(vec![TensorType::new(x[0].dtype, shape)])
}

/// The shape that two shapes broadcast to: dimensions pair from the last, equal or one of them 1.
/// A dimension that only running tells (its symbol begins with `?`) fits any other.
pub(crate) fn broadcast_shapes(a: &Shape, b: &Shape) -> Result<Shape, RuleError> {
    let one = Dim::constant(1);
    let rank = a.rank().max(b.rank());
    let at = |s: &Shape, i: usize| {
        (i + s.rank()).checked_sub(rank).and_then(|i| s.0.get(i).cloned()).unwrap_or_else(|| one.clone())
    };
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        let (p, q) = (at(a, i), at(b, i));
        dims.push(if p == q || q == one {
            p
        } else if p == one || unknown(&p) {
            q
        } else if unknown(&q) {
            p
        } else {
            bail!("shapes {a} and {b} do not broadcast: {p} against {q}")
        });
    }
    Ok(Shape(dims))
}

/// Whether only running tells the size.
pub(crate) fn unknown(dim: &Dim) -> bool {
    dim.as_symbol().is_some_and(|s| s.starts_with('?'))
}

/// Two forms: `gate, up` of one shape, or `x` with the matrices.
pub(crate) fn gated(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if x.len() == 2 {
        if x[0] != x[1] {
            bail!("gate is {} and up is {}; they must agree", x[0], x[1]);
        }
        float("gate", &x[0])?;
        return Ok(vec![x[0].clone()]);
    }
    let gate = product(&x[0], &x[1])?;
    let up = product(&x[0], &x[2])?;
    if gate != up {
        bail!("W_gate gives {gate} and W_up gives {up}; they must agree");
    }
    match x.get(3) {
        Some(down) => Ok(vec![product(&up, down)?]),
        None => Ok(vec![up]),
    }
}

/// Slopes: one, or one per channel (dimension 1, or the last of a matrix).
pub(crate) fn prelu(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("x", &x[0])?;
    float("slope", &x[1])?;
    let slopes = x[1].shape.elements().ok_or_else(overflow)?;
    let channels = if x[0].shape.rank() > 2 { &x[0].shape.0[1] } else { last("x", &x[0])? };
    if slopes != Dim::constant(1) && slopes != *channels {
        bail!("slope has {slopes} values, expected 1 or {channels} (channels of x {})", x[0].shape);
    }
    Ok(vec![x[0].clone()])
}

/// The operand's type, along a dimension that must exist.
pub(crate) fn along(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if let Op::Softmax { dim } = op {
        axis(i64::from(*dim), &x[0])?;
    }
    float("x", &x[0])?;
    Ok(vec![x[0].clone()])
}

/// The dimension drops out; the result holds indices.
pub(crate) fn argmax(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Argmax { dim } = op else { bail!("not Argmax") };
    let at = axis(i64::from(*dim), &x[0])?;
    if x[0].dtype == DType::Bool {
        bail!("x has the type bool, expected numbers");
    }
    if x[0].shape.0[at].as_const() == Some(0) {
        bail!("dimension {dim} of {} is empty, so nothing is the largest", x[0].shape);
    }
    let mut dims = x[0].shape.0.clone();
    dims.remove(at);
    Ok(vec![TensorType::new(DType::I64, Shape(dims))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn one_operand() {
        assert_eq!(good(Op::Silu, &[f("S, 4")]), "f32[S, 4]");
        assert_eq!(good(Op::Exp, &[t(DType::Q8, "S, 32")]), "f32[S, 32]");
        assert_eq!(good(Op::Neg, &[t(DType::I64, "")]), "i64[]");
        bad(Op::Silu, &[t(DType::I64, "S")], "x has the type i64, expected real");
        bad(Op::Abs, &[t(DType::Bool, "S")], "expected numbers");
        bad(Op::Silu, &[], "takes the operands `x`, found 0");
        let soft = |dim| Op::Softmax { dim };
        assert_eq!(good(soft(-1), &[f("S, 4")]), "f32[S, 4]");
        bad(soft(2), &[f("S, 4")], "dimension 2 does not exist");
        let top = |dim| Op::Argmax { dim };
        assert_eq!(good(top(-1), &[f("S, V")]), "i64[S]");
        assert_eq!(good(top(0), &[t(DType::I64, "S, V")]), "i64[V]");
        bad(top(-3), &[f("S, V")], "dimension -3 does not exist");
        bad(top(0), &[f("0, V")], "is empty");
        bad(top(0), &[t(DType::Bool, "S")], "x has the type bool");
    }

    #[test]
    fn numbers_of_the_payload_suit_the_operand() {
        let clamp =
            |min: Option<f32>, max: Option<f32>| Op::Clamp { min: min.map(Into::into), max: max.map(Into::into) };
        let i = t(DType::I64, "S");
        assert_eq!(good(clamp(None, None), &[f("S")]), "f32[S]");
        assert_eq!(good(clamp(Some(0.5), Some(0.5)), &[f("S")]), "f32[S]");
        assert_eq!(good(clamp(Some(-1.0), Some(f32::INFINITY)), std::slice::from_ref(&i)), "i64[S]");
        bad(clamp(Some(f32::NAN), None), &[f("S")], "min is NaN");
        bad(clamp(None, Some(f32::NAN)), &[f("S")], "max is NaN");
        bad(clamp(Some(1.0), Some(0.5)), &[f("S")], "min 1 is above max 0.5");
        bad(clamp(Some(0.5), None), std::slice::from_ref(&i), "min is 0.5 and x has the type i64");
        assert_eq!(good(Op::AddScalar { value: 2.0.into() }, std::slice::from_ref(&i)), "i64[S]");
        bad(Op::MulScalar { value: 1.5.into() }, std::slice::from_ref(&i), "use a whole number");
        bad(Op::AddScalar { value: 1e20.into() }, std::slice::from_ref(&i), "use a whole number");
        bad(Op::AddScalar { value: f32::NAN.into() }, &[i], "value is NaN");
    }

    #[test]
    fn pairs_broadcast() {
        assert_eq!(good(Op::Add, &[f("S, 1, 4"), f("3, 1")]), "f32[S, 3, 4]");
        assert_eq!(good(Op::Div, &[f("P + S"), f("S + P")]), "f32[P + S]");
        assert_eq!(good(Op::Add, &[f("8, ?k_len"), f("8, P + S")]), "f32[8, P + S]");
        bad(Op::Sub, &[f("S"), f("T")], "do not broadcast: S against T");
        bad(Op::Mul, &[f("S"), t(DType::I64, "S")], "cast one");
        bad(Op::Add, &[t(DType::Bool, "S"), t(DType::Bool, "S")], "have the type bool");
        assert_eq!(good(Op::FlowStep, &[f("B, 4"), f("B, 4"), f("")]), "f32[B, 4]");
        bad(Op::FlowStep, &[f("B, 4"), f("B, 5"), f("")], "do not broadcast");
    }

    #[test]
    fn gates_and_slopes() {
        for op in [Op::GeGlu, Op::SwiGlu, Op::Glu] {
            assert_eq!(good(op.clone(), &[f("S, 8"), f("S, 8")]), "f32[S, 8]");
            let four = [f("S, 4"), f("8, 4"), f("8, 4"), f("4, 8")];
            assert_eq!(good(op.clone(), &four), "f32[S, 4]");
            bad(op.clone(), &four[..3], "found 3");
            bad(op.clone(), &[f("S, 8"), f("S, 4")], "they must agree");
            bad(op, &[f("S, 4"), f("8, 4"), f("9, 4"), f("4, 8")], "must agree");
        }
        let three = [f("S, 4"), f("8, 4"), f("8, 4")];
        assert_eq!(good(Op::FusedSwiGlu, &three), "f32[S, 8]");
        bad(Op::FusedSwiGlu, &[f("S, 4"), f("8, 5"), f("8, 4")], "last dimension of W");
        assert_eq!(good(Op::PRelu, &[f("N, 3, H, W"), f("3")]), "f32[N, 3, H, W]");
        assert_eq!(good(Op::PRelu, &[f("S, 8"), f("1")]), "f32[S, 8]");
        bad(Op::PRelu, &[f("N, 3, H, W"), f("4")], "slope has 4 values, expected 1 or 3");
    }
}
