//! Rotary embedding.

use super::Frame;
use super::layout::operand;
use crate::error::Result;
use candle_core::{D, DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::rope::{Angles, angles};

/// Positions of the tokens of a call: the injected scalar counts up, a longer `pos` is taken as it is.
pub(crate) fn positions(pos: &Tensor, tokens: usize) -> Result<Vec<i64>> {
    let given = pos.flatten_all()?.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    Ok(match given.as_slice() {
        [first] => (0..tokens as i64).map(|i| first + i).collect(),
        _ => given,
    })
}

/// The angles of a call and the cosine and sine of each token and pair, `[tokens, pairs]`.
/// `length` is the number of positions that the whole text of the call reaches.
pub(crate) fn table(op: &Op, positions: &[i64], length: usize) -> Option<(Angles, Vec<f32>, Vec<f32>)> {
    let angles = angles(op, length as u64)?;
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for &p in positions {
        for &f in &angles.frequencies {
            let angle = p as f32 * f;
            cos.push(angle.cos() * angles.factor);
            sin.push(angle.sin() * angles.factor);
        }
    }
    Some((angles, cos, sin))
}

/// x `[tokens, heads, head_dim]`, `[tokens · heads, head_dim]` or `[B, heads, tokens, head_dim]`.
pub(super) fn rope(step: &Step, x: &Tensor, pos: &Tensor, frame: &Frame<'_>) -> Result<Tensor> {
    let interleaved = matches!(step.op, Op::RopeScaled { interleaved: true, .. });
    let width = x.dim(D::Minus1)?;
    let tokens = match x.rank() {
        3 => x.dim(0)?,
        4 => x.dim(2)?,
        _ => frame.tokens,
    };
    let wide = match x.rank() {
        // Rows are token-major: row r belongs to token r / heads.
        2 if tokens > 0 && x.dim(0)? % tokens == 0 => x.reshape((tokens, x.dim(0)? / tokens, width))?,
        2 => return Err(operand(step, format!("{} rows do not divide into {tokens} tokens", x.dim(0)?))),
        4 => x.transpose(1, 2)?.contiguous()?,
        _ => x.clone(),
    };
    let places = positions(pos, tokens)?;
    if places.len() != tokens {
        return Err(operand(step, format!("{} positions for {tokens} tokens", places.len())));
    }
    let Some((angles, cos, sin)) = table(&step.op, &places, frame.length) else {
        return Err(operand(step, "no rotary embedding".into()));
    };
    let pairs = angles.frequencies.len();
    let cos = Tensor::from_vec(cos, (tokens, 1, pairs), &Device::Cpu)?;
    let sin = Tensor::from_vec(sin, (tokens, 1, pairs), &Device::Cpu)?;

    let turning = wide.narrow(D::Minus1, 0, 2 * pairs)?.contiguous()?;
    let (a, b) = if interleaved {
        let mut split = turning.dims().to_vec();
        split.pop();
        split.extend([pairs, 2]);
        let split = turning.reshape(split)?;
        (split.narrow(D::Minus1, 0, 1)?.squeeze(D::Minus1)?, split.narrow(D::Minus1, 1, 1)?.squeeze(D::Minus1)?)
    } else {
        (turning.narrow(D::Minus1, 0, pairs)?, turning.narrow(D::Minus1, pairs, pairs)?)
    };
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
    let turned = if interleaved {
        Tensor::stack(&[first, second], D::Minus1)?.flatten_from(turning.rank() - 1)?
    } else {
        Tensor::cat(&[first, second], D::Minus1)?
    };
    let y = match width - 2 * pairs {
        0 => turned,
        rest => Tensor::cat(&[turned, wide.narrow(D::Minus1, 2 * pairs, rest)?.contiguous()?], D::Minus1)?,
    };
    let y = if x.rank() == 4 { y.transpose(1, 2)?.contiguous()? } else { y };
    Ok(y.reshape(x.dims())?)
}
