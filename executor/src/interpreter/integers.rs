//! Arithmetic of integers: 64 bits, wrapping around as two's complement does.

use super::layout::operand;
use super::sizes::broadcast;
use crate::error::Result;
use candle_core::{DType, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;

/// Whether a tensor holds integers. Bytes do; truth values do not come here.
pub(super) fn is_integer(x: &Tensor) -> bool {
    matches!(x.dtype(), DType::I64 | DType::U8)
}

/// The values in row-major order.
pub(super) fn list(x: &Tensor) -> Result<Vec<i64>> {
    Ok(x.to_dtype(DType::I64)?.flatten_all()?.to_vec1()?)
}

/// Operations of one operand whose numbers, as the shape rule has checked, are whole.
pub(super) fn unary(step: &Step, x: &Tensor) -> Result<Tensor> {
    let f: Box<dyn Fn(i64) -> i64> = match &step.op {
        Op::Clamp { min, max } => {
            // A cast saturates, so that an infinite bound binds nothing.
            let min = min.map_or(i64::MIN, |m| m.get() as i64);
            let max = max.map_or(i64::MAX, |m| m.get() as i64);
            Box::new(move |v| v.max(min).min(max))
        }
        Op::Relu => Box::new(|v| v.max(0)),
        Op::ReluSquared => Box::new(|v| v.max(0).wrapping_mul(v.max(0))),
        Op::AddScalar { value } => {
            let value = value.get() as i64;
            Box::new(move |v| v.wrapping_add(value))
        }
        Op::MulScalar { value } => {
            let value = value.get() as i64;
            Box::new(move |v| v.wrapping_mul(value))
        }
        Op::Neg => Box::new(i64::wrapping_neg),
        Op::Abs => Box::new(i64::wrapping_abs),
        other => return Err(operand(step, format!("{} is not defined for integers", other.name()))),
    };
    let values: Vec<i64> = list(x)?.into_iter().map(f).collect();
    Ok(Tensor::from_vec(values, x.shape(), x.device())?)
}

/// Sum, difference, product or quotient of two operands, broadcast.
///
/// # Errors
/// A zero divisor.
pub(super) fn binary(step: &Step, op: &Op, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let f = match op {
        Op::Add => i64::wrapping_add,
        Op::Sub => i64::wrapping_sub,
        Op::Mul => i64::wrapping_mul,
        Op::Div => i64::wrapping_div,
        other => return Err(operand(step, format!("{} is not defined for integers", other.name()))),
    };
    let dims = broadcast(step, a, b)?;
    let (p, q) = (list(&a.broadcast_as(dims.clone())?)?, list(&b.broadcast_as(dims.clone())?)?);
    if matches!(op, Op::Div)
        && let Some(at) = q.iter().position(|&v| v == 0)
    {
        return Err(operand(step, format!("the divisor of value {at} of the result is 0; integers have no infinity")));
    }
    let values: Vec<i64> = p.into_iter().zip(q).map(|(p, q)| f(p, q)).collect();
    Ok(Tensor::from_vec(values, dims, a.device())?)
}
