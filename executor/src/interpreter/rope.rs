//! Rotary embedding.

use super::Frame;
use super::layout::operand;
use crate::error::Result;
use candle_core::{D, DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::rope::{Angles, angles};

/// One position for each token of x `[tokens, heads, head_dim]`, `[tokens · heads, head_dim]` or
/// `[B, heads, tokens, head_dim]`: a single `pos`, as the session injects it, counts up from token to
/// token; a longer one is taken as it is. Rows without tokens of their own have those of `pos`, else
/// those of the call.
///
/// # Errors
/// Positions that are no whole numbers, or not one for each token.
pub(crate) fn places(step: &Step, x: &Tensor, pos: &Tensor, frame: &Frame<'_>) -> Result<Vec<i64>> {
    let given = whole(step, pos)?;
    let tokens = match *x.dims() {
        [tokens, _, _] | [_, _, tokens, _] => tokens,
        // Rows are token-major: row r belongs to token r / heads.
        [rows, _] => {
            let tokens = if given.len() == 1 { frame.tokens } else { given.len() };
            if rows.checked_rem(tokens).unwrap_or(rows) != 0 {
                return Err(operand(step, format!("{rows} rows do not divide into {tokens} tokens")));
            }
            tokens
        }
        _ => return Err(operand(step, format!("x has shape {:?}", x.dims()))),
    };
    match *given.as_slice() {
        [first] => (0..tokens as i64)
            .map(|i| first.checked_add(i))
            .collect::<Option<_>>()
            .ok_or_else(|| operand(step, format!("position {first} and {tokens} tokens run past the last integer"))),
        _ if given.len() == tokens => Ok(given),
        _ => Err(operand(step, format!("{} positions for {tokens} tokens", given.len()))),
    }
}

/// Positions as integers.
fn whole(step: &Step, pos: &Tensor) -> Result<Vec<i64>> {
    if pos.dtype() == DType::F32 {
        let values = pos.flatten_all()?.to_vec1::<f32>()?;
        if let Some(value) = values.iter().find(|v| v.fract() != 0.0) {
            return Err(operand(step, format!("position {value} is no whole number")));
        }
    }
    Ok(pos.flatten_all()?.to_dtype(DType::I64)?.to_vec1()?)
}

/// The angles of a call and the cosine and sine of each token and pair, `[tokens, pairs]`.
/// `length` is the number of positions that the whole text of the call reaches, as far as the
/// session knows; given positions may reach further.
pub(crate) fn table(op: &Op, positions: &[i64], length: usize) -> Option<(Angles, Vec<f32>, Vec<f32>)> {
    let furthest = positions.iter().copied().max().unwrap_or(-1);
    let angles = angles(op, (length as u64).max(u64::try_from(furthest).map_or(0, |p| p + 1)))?;
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
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let interleaved = matches!(step.op, Op::RopeScaled { interleaved: true, .. });
    let width = x.dim(D::Minus1)?;
    let places = places(step, x, pos, frame)?;
    let tokens = places.len();
    let wide = match x.rank() {
        2 => x.reshape((tokens, x.dim(0)? / tokens, width))?,
        4 => x.transpose(1, 2)?.contiguous()?,
        _ => x.clone(),
    };
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
