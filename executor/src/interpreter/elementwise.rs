//! Elementwise operations, gates, and those along one dimension.

use super::host::{broadcast, integers as as_i64, tensor, values};
use super::layout::operand;
use super::{integers, matrix};
use crate::error::Result;
use crate::kernels::softmax::MASKED;
use candle_core::Tensor;
use tallow_compiler::Step;
use tallow_ir::Op;

/// Operations of one operand. The caller passes no other.
pub(super) fn unary(step: &Step, x: &Tensor) -> Result<Tensor> {
    if integers::is_integer(x) {
        return integers::unary(step, x);
    }
    real(step, &step.op, x)
}

/// [`unary`] `op` of real numbers. A NaN that goes in comes out.
fn real(step: &Step, op: &Op, x: &Tensor) -> Result<Tensor> {
    Ok(match op {
        Op::Clamp { min, max } => {
            let x = min.map_or(Ok(x.clone()), |m| x.maximum(m.get()))?;
            max.map_or(Ok(x.clone()), |m| x.minimum(m.get()))?
        }
        Op::NanToNum { nan, posinf, neginf } => {
            let pick =
                |mask: Tensor, with: f32, x: &Tensor| mask.where_cond(&Tensor::full(with, x.shape(), x.device())?, x);
            let (is_nan, is_high, is_low) = (x.ne(x)?, x.eq(f32::INFINITY)?, x.eq(f32::NEG_INFINITY)?);
            let x = pick(is_nan, nan.get(), x)?;
            let x = pick(is_high, posinf.get(), &x)?;
            pick(is_low, neginf.get(), &x)?
        }
        Op::Silu => (x * sigmoid(x)?)?,
        Op::Gelu { approximate: true } => x.gelu()?,
        Op::Gelu { approximate: false } => x.gelu_erf()?,
        Op::Relu => x.maximum(0f32)?,
        Op::LeakyRelu { slope } => {
            let slope = f64::from(slope.get());
            each(x, |v| if v > 0.0 { v } else { v * slope })?
        }
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
        Op::Softplus => each(x, |v| (-v.abs()).exp().ln_1p() + if v < 0.0 { 0.0 } else { v })?,
        Op::Abs => x.abs()?,
        Op::QuickGelu => (x * sigmoid(&(x * 1.702)?)?)?,
        Op::ReluSquared => x.maximum(0f32)?.sqr()?,
        other => return Err(operand(step, format!("{} is no unary operation", other.name()))),
    })
}

/// `f` of each value, in double precision.
pub(super) fn each(x: &Tensor, f: impl Fn(f64) -> f64) -> Result<Tensor> {
    tensor(values::<f32>(x)?.into_iter().map(|v| f(f64::from(v)) as f32).collect(), x.dims())
}

fn sigmoid(x: &Tensor) -> candle_core::Result<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
}

/// Sum, difference, product or quotient of two operands, with NumPy broadcasting.
pub(super) fn binary(step: &Step, op: &Op, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if integers::is_integer(a) {
        return integers::binary(step, op, a, b);
    }
    broadcast(step, &[a.dims(), b.dims()])?;
    Ok(match op {
        Op::Add => a.broadcast_add(b)?,
        Op::Sub => a.broadcast_sub(b)?,
        Op::Mul => a.broadcast_mul(b)?,
        Op::Div => a.broadcast_div(b)?,
        other => return Err(operand(step, format!("{} is no operation of two operands", other.name()))),
    })
}

/// `act(gate) · up`, in the two-operand form or with the products.
pub(super) fn gated(step: &Step, x: &[Tensor]) -> Result<Tensor> {
    let (gate, up) = match x {
        [gate, up] => (gate.clone(), up.clone()),
        _ => (matrix::matmul(step, &x[0], &x[1])?, matrix::matmul(step, &x[0], &x[2])?),
    };
    let activation = match step.op {
        Op::GeGlu => Op::Gelu { approximate: false },
        Op::Glu => Op::Sigmoid,
        _ => Op::Silu,
    };
    let y = (real(step, &activation, &gate)? * up)?;
    match x.get(3) {
        Some(down) => matrix::matmul(step, &y, down),
        None => Ok(y),
    }
}

/// `x` where positive, else `slope · x`: one slope, or one per channel, which is dimension 1, or
/// the last of a matrix.
pub(super) fn prelu(step: &Step, x: &Tensor, slope: &Tensor) -> Result<Tensor> {
    let (mut y, slopes) = (values::<f32>(x)?, values::<f32>(slope)?);
    let channel = if x.rank() > 2 { 1 } else { x.rank().saturating_sub(1) };
    let channels = x.dims().get(channel).copied().unwrap_or(1);
    if slopes.len() != 1 && slopes.len() != channels {
        return Err(operand(step, format!("{} slopes for {channels} channels", slopes.len())));
    }
    let stride = x.dims().iter().skip(channel + 1).product::<usize>().max(1);
    for (i, value) in y.iter_mut().enumerate() {
        let slope = slopes[if slopes.len() == 1 { 0 } else { i / stride % channels }];
        *value = if *value > 0.0 { *value } else { *value * slope };
    }
    tensor(y, x.dims())
}

/// Exponentials that sum to 1 along `dim`. A row without a value above [`MASKED`] gives zeros.
pub(super) fn softmax(x: &Tensor, dim: i32) -> Result<Tensor> {
    let (dim, last) = (at(x, dim), x.rank() - 1);
    let rows = x.transpose(dim, last)?.contiguous()?;
    let mut y = values::<f32>(&rows)?;
    for row in y.chunks_mut(x.dim(dim)?.max(1)) {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if top <= MASKED && !row.iter().any(|v| v.is_nan()) {
            row.fill(0.0);
            continue;
        }
        let mut sum = 0f64;
        for value in &mut *row {
            *value = (*value - top).exp();
            sum += f64::from(*value);
        }
        for value in row {
            *value = (f64::from(*value) / sum) as f32;
        }
    }
    Ok(tensor(y, rows.dims())?.transpose(dim, last)?.contiguous()?)
}

/// Index of the first largest value along `dim`; a NaN is larger than any number, as in PyTorch.
///
/// # Errors
/// An empty dimension.
pub(super) fn argmax(step: &Step, x: &Tensor, dim: i32) -> Result<Tensor> {
    let (dim, last) = (at(x, dim), x.rank() - 1);
    let rows = x.transpose(dim, last)?.contiguous()?;
    let n = x.dim(dim)?;
    if n == 0 {
        return Err(operand(step, format!("dimension {dim} of {:?} is empty, so nothing is the largest", x.dims())));
    }
    let places: Vec<i64> = if integers::is_integer(x) {
        values::<i64>(&as_i64(&rows)?)?.chunks(n).map(|row| first_largest(row, |a, b| a > b)).collect()
    } else {
        let beats = |a: f32, b: f32| a > b || (a.is_nan() && !b.is_nan());
        values::<f32>(&rows)?.chunks(n).map(|row| first_largest(row, beats)).collect()
    };
    let mut dims = rows.dims().to_vec();
    dims[last] = 1;
    Ok(tensor(places, &dims)?.transpose(dim, last)?.squeeze(dim)?.contiguous()?)
}

/// The place of the first value that none beats.
fn first_largest<T: Copy>(row: &[T], beats: impl Fn(T, T) -> bool) -> i64 {
    let mut best = 0;
    for (i, &value) in row.iter().enumerate() {
        if beats(value, row[best]) {
            best = i;
        }
    }
    best as i64
}

fn at(x: &Tensor, dim: i32) -> usize {
    // The verifier has checked the range.
    if dim < 0 { (x.rank() as i64 + i64::from(dim)) as usize } else { dim as usize }
}
