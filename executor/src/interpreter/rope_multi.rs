//! Rotary embedding with several positions a token.

use super::layout::operand;
use crate::error::Result;
use crate::value::with_slice;
use candle_core::{DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::rope::multi_angles;

/// x `[S, heads, head_dim]`, `[S·heads, head_dim]` or `[B, heads, S, head_dim]`, pos `[axes, S]`.
pub(super) fn rope_multi(step: &Step, x: &Tensor, pos: &Tensor) -> Result<Tensor> {
    let Op::RopeMulti { interleaved, .. } = step.op else {
        return Err(operand(step, "no rotary embedding with several positions".into()));
    };
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let (axes, tokens) = pos.dims2()?;
    let pos = pos.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()?;
    let pairs = multi_angles(&step.op).unwrap_or_default();
    let width = 2 * pairs.len();
    // The token of row r of the flat [rows, head_dim].
    let rows = x.elem_count() / width.max(1);
    let token_of = |row: usize| match *x.dims() {
        [_, _, s, _] => row % s,
        [_, heads, _] => row / heads,
        _ => row / (rows / tokens.max(1)).max(1),
    };
    let fits = match *x.dims() {
        [_, _, s, _] | [s, _, _] => s == tokens,
        _ => tokens > 0 && rows.is_multiple_of(tokens),
    };
    if !fits || pairs.iter().any(|&(axis, _)| axis >= axes) {
        return Err(operand(step, format!("pos has {axes} rows for {tokens} tokens, x has shape {:?}", x.dims())));
    }
    let turned: Vec<(f32, f32)> = (0..tokens)
        .flat_map(|token| {
            let pos = &pos;
            pairs.iter().map(move |&(axis, frequency)| (pos[axis * tokens + token] * frequency).sin_cos())
        })
        .collect();
    let mut out = with_slice(x, <[f32]>::to_vec)?;
    for (row, head) in out.chunks_exact_mut(width).enumerate() {
        let angles = &turned[token_of(row) * pairs.len()..][..pairs.len()];
        for (j, &(sin, cos)) in angles.iter().enumerate() {
            let (a, b) = if interleaved { (2 * j, 2 * j + 1) } else { (j, j + pairs.len()) };
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[b] * cos + head[a] * sin);
        }
    }
    Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?)
}
