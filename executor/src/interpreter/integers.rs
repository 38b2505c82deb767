//! Arithmetic of integers, in 64 bits. Bytes stay bytes. A result that does not fit is an error.

use super::host::{as_before, broadcast, integers, spread, tensor, values};
use super::layout::operand;
use crate::error::{ExecutorError, Result};
use candle_core::{DType, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;

/// Whether a tensor holds integers. Bytes do; truth values do not come here.
pub(super) fn is_integer(x: &Tensor) -> bool {
    matches!(x.dtype(), DType::I64 | DType::U8)
}

/// Operations of one operand whose numbers, as the shape rule has checked, are whole.
///
/// # Errors
/// A result that does not fit.
pub(super) fn unary(step: &Step, x: &Tensor) -> Result<Tensor> {
    let f: Box<dyn Fn(i64) -> Option<i64>> = match &step.op {
        Op::Clamp { min, max } => {
            // A cast saturates, so that an infinite bound binds nothing.
            let min = min.map_or(i64::MIN, |m| m.get() as i64);
            let max = max.map_or(i64::MAX, |m| m.get() as i64);
            Box::new(move |v| Some(v.max(min).min(max)))
        }
        Op::Relu => Box::new(|v| Some(v.max(0))),
        Op::ReluSquared => Box::new(|v| v.max(0).checked_mul(v.max(0))),
        Op::AddScalar { value } => {
            let value = value.get() as i64;
            Box::new(move |v| v.checked_add(value))
        }
        Op::MulScalar { value } => {
            let value = value.get() as i64;
            Box::new(move |v| v.checked_mul(value))
        }
        Op::Neg => Box::new(i64::checked_neg),
        Op::Abs => Box::new(i64::checked_abs),
        other => return Err(operand(step, format!("{} is not defined for integers", other.name()))),
    };
    let results =
        values(&integers(x)?)?.into_iter().map(|v| f(v).ok_or_else(|| too_large(step))).collect::<Result<_>>()?;
    as_before(step, tensor(results, x.dims())?, x)
}

/// Sum, difference, product or quotient of two operands, broadcast.
///
/// # Errors
/// A zero divisor; a result that does not fit.
pub(super) fn binary(step: &Step, op: &Op, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let f = match op {
        Op::Add => i64::checked_add,
        Op::Sub => i64::checked_sub,
        Op::Mul => i64::checked_mul,
        Op::Div => i64::checked_div,
        other => return Err(operand(step, format!("{} is not defined for integers", other.name()))),
    };
    let dims = broadcast(step, &[a.dims(), b.dims()])?;
    let (p, q) = (spread::<i64>(&integers(a)?, &dims)?, spread::<i64>(&integers(b)?, &dims)?);
    if matches!(op, Op::Div)
        && let Some(at) = q.iter().position(|&v| v == 0)
    {
        return Err(operand(step, format!("the divisor of value {at} of the result is 0; integers have no infinity")));
    }
    let results = p.into_iter().zip(q).map(|(p, q)| f(p, q).ok_or_else(|| too_large(step))).collect::<Result<_>>()?;
    as_before(step, tensor(results, &dims)?, a)
}

fn too_large(step: &Step) -> ExecutorError {
    operand(step, "a result does not fit in 64 bits".into())
}
