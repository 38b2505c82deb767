//! Attention in all forms.

use super::elementwise::softmax;
use super::layout::operand;
use super::limits::elements;
use super::segments::of_numbers;
use crate::error::Result;
use crate::kernels::softmax::MASKED;
use candle_core::{Device, Tensor};
use std::ops::Range;
use tallow_compiler::Step;
use tallow_ir::Op;

/// The numbers of an attention operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Whether later keys are hidden.
    pub causal: bool,
    /// Keys that a query sees, itself included; 0: all.
    pub window: usize,
    /// How far from its own place a query sees keys, on either side; 0: all.
    pub reach: usize,
    /// Factor on scores.
    pub scale: f32,
    /// Cap on scores; 0: none.
    pub softcap: f32,
}

/// The numbers of `op`; `None` for another operation.
pub(crate) fn numbers(op: &Op) -> Option<Numbers> {
    let (heads, kv_heads, head_dim, causal, window, scale, softcap) = match *op {
        Op::Sdpa { heads, kv_heads, head_dim, causal } => (heads, kv_heads, head_dim, causal, 0, None, 0.0),
        Op::SdpaCross { heads, head_dim } => (heads, heads, head_dim, false, 0, None, 0.0),
        Op::SdpaWindow { heads, head_dim, window } => (heads, heads, head_dim, true, window, None, 0.0),
        Op::FlashAttention { heads, kv_heads, head_dim } => (heads, kv_heads, head_dim, true, 0, None, 0.0),
        Op::Attention { heads, kv_heads, head_dim, causal, window, scale, softcap } => {
            (heads, kv_heads, head_dim, causal, window, Some(scale.get()), softcap.get())
        }
        Op::SegmentAttention { heads, kv_heads, head_dim, scale, softcap, .. } => {
            (heads, kv_heads, head_dim, false, 0, Some(scale.get()), softcap.get())
        }
        _ => return None,
    };
    let scale = scale.unwrap_or(1.0 / (head_dim as f32).sqrt());
    let reach = if let Op::SegmentAttention { window, .. } = op { *window } else { 0 };
    Some(Numbers {
        heads: heads as usize,
        kv_heads: kv_heads as usize,
        head_dim: head_dim as usize,
        causal,
        window: window as usize,
        reach: reach as usize,
        scale,
        softcap,
    })
}

/// q, k, v and an optional additive mask; the result has q's form. A key that the mask sets to
/// [`MASKED`] or less is hidden, and a query that sees no key gives zeros.
pub(super) fn attention(step: &Step, x: &[Tensor]) -> Result<Tensor> {
    let Some(n) = numbers(&step.op) else { return Err(operand(step, "no attention".into())) };
    let q = heads_first(&x[0], n.heads, n.head_dim)?;
    let k = heads_first(&x[1], n.kv_heads, n.head_dim)?;
    let v = heads_first(&x[2], n.kv_heads, n.head_dim)?;
    let (batch, _, s, d) = q.dims4()?;
    let t = k.dim(2)?;
    elements(step, &[batch, n.heads, s, t])?;
    // Grouped heads repeat consecutively.
    let spread = |x: &Tensor| -> Result<Tensor> {
        let group = n.heads / n.kv_heads;
        Ok(x.unsqueeze(2)?.expand((batch, n.kv_heads, group, t, d))?.reshape((batch, n.heads, t, d))?)
    };
    let (k, v) = (spread(&k)?, spread(&v)?);
    let mut scores = (q.matmul(&k.t()?)? * f64::from(n.scale))?;
    if n.softcap > 0.0 {
        let cap = f64::from(n.softcap);
        scores = ((scores / cap)?.tanh()? * cap)?;
    }
    let (segments, mask) = match step.op {
        Op::SegmentAttention { .. } => (x.get(3), x.get(4)),
        _ => (None, x.get(3)),
    };
    if let Some(mask) = mask {
        scores = hide(&scores.broadcast_add(mask)?, &mask.le(MASKED)?)?;
    }
    if let Some(hidden) = hidden(s, t, &n) {
        scores = hide(&scores, &Tensor::from_vec(hidden, (s, t), &Device::Cpu)?)?;
    }
    if let Some(segments) = segments {
        let apart = apart(&of_numbers(step, segments)?, t);
        scores = hide(&scores, &Tensor::from_vec(apart, (s, t), &Device::Cpu)?)?;
    }
    let y = softmax(&scores, -1)?.matmul(&v)?;
    if x[0].rank() == 4 {
        return Ok(y);
    }
    Ok(y.squeeze(0)?.transpose(0, 1)?.contiguous()?.reshape(x[0].dims())?)
}

/// `[B, heads, tokens, head_dim]` from any of the three forms.
fn heads_first(x: &Tensor, heads: usize, head_dim: usize) -> Result<Tensor> {
    if x.rank() == 4 {
        return Ok(x.contiguous()?);
    }
    let tokens = x.elem_count() / (heads * head_dim);
    Ok(x.reshape((1, tokens, heads, head_dim))?.transpose(1, 2)?.contiguous()?)
}

/// Negative infinity in the places of `hidden` (not 0), which broadcasts.
fn hide(scores: &Tensor, hidden: &Tensor) -> Result<Tensor> {
    let none = Tensor::full(f32::NEG_INFINITY, scores.shape(), scores.device())?;
    Ok(hidden.broadcast_as(scores.shape())?.where_cond(&none, scores)?)
}

/// What causality, window and reach hide, `[s, t]` of 0 and 1; `None` where everything is visible. Query
/// `i` stands at key `t − s + i`.
fn hidden(s: usize, t: usize, n: &Numbers) -> Option<Vec<u8>> {
    if !n.causal && n.window == 0 && n.reach == 0 {
        return None;
    }
    let mut hidden = Vec::with_capacity(s * t);
    for i in 0..s {
        let here = (t + i) as i64 - s as i64;
        for j in 0..t as i64 {
            let late = n.causal && j > here;
            let early = n.window > 0 && j <= here - n.window as i64;
            let far = n.reach > 0 && j.abs_diff(here) > n.reach as u64;
            hidden.push(u8::from(late || early || far));
        }
    }
    Some(hidden)
}

/// What segments hide of each other, `[tokens, tokens]` of 0 and 1.
fn apart(segments: &[Range<usize>], tokens: usize) -> Vec<u8> {
    let mut apart = vec![1; tokens * tokens];
    for segment in segments {
        for i in segment.clone() {
            apart[i * tokens..][segment.clone()].fill(0);
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(causal: bool, window: usize) -> Numbers {
        Numbers { heads: 1, kv_heads: 1, head_dim: 2, causal, window, reach: 0, scale: 1.0, softcap: 0.0 }
    }

    #[test]
    fn a_window_of_w_sees_w_keys_and_the_last_query_meets_the_last_key() {
        let seen = |s, t, n: &Numbers| -> Vec<usize> {
            let hidden = hidden(s, t, n).unwrap();
            hidden.chunks(t).map(|row| row.iter().filter(|&&m| m == 0).count()).collect()
        };
        assert_eq!(seen(3, 5, &numbers(true, 0)), [3, 4, 5]);
        assert_eq!(seen(3, 5, &numbers(true, 2)), [2, 2, 2]);
        assert_eq!(seen(2, 2, &numbers(true, 3)), [1, 2]);
        assert!(hidden(2, 2, &numbers(false, 0)).is_none());
        let both = Numbers { reach: 1, ..numbers(false, 0) };
        assert_eq!(seen(4, 4, &both), [2, 3, 3, 2]);
    }
}
