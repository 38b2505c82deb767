//! Elementwise operations, gates, and those along one dimension.

use super::matrix;
use crate::error::Result;
use candle_core::{D, DType, Tensor};
use tallow_ir::Op;

/// Operations of one operand. The caller passes no other.
pub(super) fn unary(op: &Op, x: &Tensor) -> Result<Tensor> {
    Ok(match op {
        Op::Clamp { min, max } => {
            let x = min.map_or(Ok(x.clone()), |m| x.maximum(m.get()))?;
            max.map_or(Ok(x.clone()), |m| x.minimum(m.get()))?
        }
        Op::NanToNum { nan, posinf, neginf } => {
            let pick =
                |mask: Tensor, with: f32, x: &Tensor| mask.where_cond(&Tensor::full(with, x.shape(), x.device())?, x);
            let x = pick(x.ne(x)?, nan.get(), x)?;
            let x = pick(x.eq(f32::INFINITY)?, posinf.get(), &x)?;
            pick(x.eq(f32::NEG_INFINITY)?, neginf.get(), &x)?
        }
        Op::Silu => (x * sigmoid(x)?)?,
        Op::Gelu { approximate: true } => x.gelu()?,
        Op::Gelu { approximate: false } => x.gelu_erf()?,
        Op::Relu => x.relu()?,
        Op::LeakyRelu { slope } => (x.relu()? - (x.neg()?.relu()? * f64::from(slope.get()))?)?,
        Op::Sigmoid => sigmoid(x)?,
        Op::Tanh => x.tanh()?,
        Op::AddScalar { value } => (x + f64::from(value.get()))?,
        Op::MulScalar { value } => (x * f64::from(value.get()))?,
        Op::Neg => x.neg()?,
        Op::Exp => x.exp()?,
        Op::Log => x.log()?,
        Op::Sqrt => x.sqrt()?,
        Op::Sin => x.sin()?,
        Op::Cos => x.cos()?,
        Op::Erf => x.erf()?,
        // log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
        Op::Softplus => (x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?)?,
        Op::Abs => x.abs()?,
        Op::QuickGelu => (x * sigmoid(&(x * 1.702)?)?)?,
        Op::ReluSquared => x.relu()?.sqr()?,
        other => return Err(candle_core::Error::Msg(format!("{} is no unary operation", other.name())).into()),
    })
}

fn sigmoid(x: &Tensor) -> candle_core::Result<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
}

/// `act(gate) · up`, in the two-operand form or with the products.
pub(super) fn gated(op: &Op, x: &[Tensor]) -> Result<Tensor> {
    let (gate, up) = match x {
        [gate, up] => (gate.clone(), up.clone()),
        _ => (matrix::matmul(&x[0], &x[1])?, matrix::matmul(&x[0], &x[2])?),
    };
    let gate = match op {
        Op::GeGlu => unary(&Op::Gelu { approximate: false }, &gate)?,
        Op::Glu => unary(&Op::Sigmoid, &gate)?,
        _ => unary(&Op::Silu, &gate)?,
    };
    let y = (gate * up)?;
    match x.get(3) {
        Some(down) => matrix::matmul(&y, down),
        None => Ok(y),
    }
}

/// Exponentials that sum to 1 along `dim`; a row of negative infinities gives zeros.
pub(super) fn softmax(x: &Tensor, dim: i32) -> Result<Tensor> {
    let dim = at(x, dim);
    let top = x.max_keepdim(dim)?.maximum(f32::MIN)?;
    let e = x.broadcast_sub(&top)?.exp()?;
    let sum = e.sum_keepdim(dim)?.maximum(f32::MIN_POSITIVE)?;
    Ok(e.broadcast_div(&sum)?)
}

/// Index of the first largest value along `dim`.
pub(super) fn argmax(x: &Tensor, dim: i32) -> Result<Tensor> {
    let dim = at(x, dim);
    let last = x.rank() - 1;
    let x = x.transpose(dim, last)?.contiguous()?;
    let top = x.max_keepdim(D::Minus1)?;
    let n = x.dim(D::Minus1)?;
    // The first place that holds the maximum: count down so that the earliest scores highest.
    let place = Tensor::arange(0u32, n as u32, x.device())?.to_dtype(DType::F32)?.affine(-1.0, n as f64)?;
    let hits = x.broadcast_eq(&top)?.to_dtype(DType::F32)?.broadcast_mul(&place)?;
    let first = hits.max_keepdim(D::Minus1)?.affine(-1.0, n as f64)?.to_dtype(DType::I64)?;
    Ok(first.transpose(dim, last)?.squeeze(dim)?.contiguous()?)
}

fn at(x: &Tensor, dim: i32) -> usize {
    // The verifier has checked the range.
    if dim < 0 { (x.rank() as i64 + i64::from(dim)) as usize } else { dim as usize }
}
