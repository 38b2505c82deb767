//! Truth values, comparisons, choices, arithmetic of pairs, and casts.

use super::elementwise::broadcast_shapes;
use super::{Context, Types, bail, float};
use crate::{DType, Op, RuleError, TensorType};

/// The result has the operand's type, which is bool.
pub(crate) fn not(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    truth("x", &x[0])?;
    Ok(vec![x[0].clone()])
}

/// Two numbers of one type, real ones for `Pow`; the result has it too.
pub(crate) fn arithmetic(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    for (what, t) in ["a", "b"].into_iter().zip(x) {
        match op {
            Op::Pow => float(what, t)?,
            _ => number(what, t)?,
        }
    }
    Ok(vec![together(x)?])
}

/// Two operands of one type, numbers if an order is asked for; the result is bool.
pub(crate) fn compare(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    use crate::ops::Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    let Op::Compare { how } = op else { bail!("not Compare") };
    match how {
        Equal | NotEqual => {}
        Less | LessEqual | Greater | GreaterEqual => {
            for (what, t) in ["a", "b"].into_iter().zip(x) {
                number(what, t)?;
            }
        }
    }
    Ok(vec![TensorType::new(DType::Bool, together(x)?.shape)])
}

/// cond is bool; a and b have one type, which the result has too; all three broadcast.
pub(crate) fn select(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    truth("cond", &x[0])?;
    let chosen = together(&x[1..])?;
    Ok(vec![TensorType::new(chosen.dtype, broadcast_shapes(&x[0].shape, &chosen.shape)?)])
}

/// Both operands and the result are bool.
pub(crate) fn logical(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    for (what, t) in ["a", "b"].into_iter().zip(x) {
        truth(what, t)?;
    }
    Ok(vec![together(x)?])
}

/// Any operand; the result has the type asked for, which is no encoding.
pub(crate) fn cast(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Cast { dtype } = op else { bail!("not Cast") };
    if dtype.is_encoding() {
        bail!("dtype is {dtype}, an encoding of weights; expected f32, f16, bf16, i8, u8, i32, i64 or bool");
    }
    Ok(vec![TensorType::new(*dtype, x[0].shape.clone())])
}

/// The type to which two operands of one element type broadcast.
fn together(x: &[TensorType]) -> Result<TensorType, RuleError> {
    let (a, b) = (&x[0], &x[1]);
    let shape = broadcast_shapes(&a.shape, &b.shape)?;
    if a.dtype != b.dtype {
        bail!("operands have the types {} and {}; cast one", a.dtype, b.dtype);
    }
    Ok(TensorType::new(a.dtype, shape))
}

/// Requires numbers of any kind.
pub(super) fn number(what: &str, t: &TensorType) -> Result<(), RuleError> {
    if t.dtype == DType::Bool {
        bail!("{what} has the type bool, expected numbers");
    }
    Ok(())
}

fn truth(what: &str, t: &TensorType) -> Result<(), RuleError> {
    if t.dtype != DType::Bool {
        bail!("{what} has the type {}, expected bool", t.dtype);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::ops::{Comparison, Connective};

    fn bools(dims: &str) -> TensorType {
        t(DType::Bool, dims)
    }

    #[test]
    fn numbers_of_one_type_pair() {
        let i = |dims| t(DType::I64, dims);
        assert_eq!(good(Op::Pow, &[f("S, 4"), f("")]), "f32[S, 4]");
        bad(Op::Pow, &[i("S"), i("S")], "a has the type i64, expected real");
        for op in [Op::Maximum, Op::Minimum, Op::Remainder] {
            assert_eq!(good(op.clone(), &[f("S, 1"), f("4")]), "f32[S, 4]");
            assert_eq!(good(op.clone(), &[i("S"), i("1")]), "i64[S]");
            bad(op.clone(), &[i("S"), f("S")], "cast one");
            bad(op.clone(), &[f("S"), bools("S")], "b has the type bool");
            bad(op, &[f("S"), f("T")], "do not broadcast");
        }
        assert_eq!(good(Op::Sign, &[i("S")]), "i64[S]");
        for op in [Op::Rsqrt, Op::Floor, Op::Round, Op::Reciprocal] {
            assert_eq!(good(op.clone(), &[f("S")]), "f32[S]");
            bad(op, &[i("S")], "x has the type i64");
        }
    }

    #[test]
    fn truth_values() {
        let compare = |how| Op::Compare { how };
        assert_eq!(good(compare(Comparison::Less), &[f("S, 1"), f("T")]), "bool[S, T]");
        assert_eq!(good(compare(Comparison::Equal), &[bools("S"), bools("1")]), "bool[S]");
        assert_eq!(good(compare(Comparison::GreaterEqual), &[t(DType::I32, ""), t(DType::I32, "")]), "bool[]");
        bad(compare(Comparison::Less), &[bools("S"), bools("S")], "a has the type bool, expected numbers");
        bad(compare(Comparison::NotEqual), &[bools("S"), f("S")], "cast one");
        let logical = |how| Op::Logical { how };
        for how in [Connective::And, Connective::Or, Connective::Xor] {
            assert_eq!(good(logical(how), &[bools("S, 1"), bools("4")]), "bool[S, 4]");
            bad(logical(how), &[bools("S"), f("S")], "b has the type f32, expected bool");
        }
        assert_eq!(good(Op::Not, &[bools("S")]), "bool[S]");
        bad(Op::Not, &[f("S")], "x has the type f32, expected bool");
        assert_eq!(good(Op::Select, &[bools("S, 1, 1"), f("3, 1"), f("4")]), "f32[S, 3, 4]");
        assert_eq!(good(Op::Select, &[bools(""), bools("S"), bools("S")]), "bool[S]");
        bad(Op::Select, &[f("S"), f("S"), f("S")], "cond has the type f32, expected bool");
        bad(Op::Select, &[bools("S"), f("S"), t(DType::I64, "S")], "cast one");
        bad(Op::Select, &[bools("T"), f("S"), f("S")], "do not broadcast");
    }

    #[test]
    fn casts() {
        let cast = |dtype| Op::Cast { dtype };
        let to = [DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool];
        for dtype in DType::ALL {
            if to.contains(dtype) {
                assert_eq!(good(cast(*dtype), &[bools("S")]), format!("{dtype}[S]"));
                assert_eq!(good(cast(*dtype), &[t(DType::Q8, "")]), format!("{dtype}[]"));
            } else {
                bad(cast(*dtype), &[f("S")], "an encoding of weights");
            }
        }
    }
}
