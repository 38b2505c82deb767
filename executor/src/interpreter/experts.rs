//! Products with chosen experts.

use super::layout::{ids_of, operand};
use crate::error::Result;
use crate::value::with_slice;
use candle_core::{Device, Tensor};
use tallow_compiler::Step;

/// x `[S, K]` or `[S, chosen, K]`, W `[experts, N, K]`, index `[S, chosen]`: `[S, chosen, N]`. The rows of
/// one expert are gathered and multiplied together; experts that nobody chose cost nothing.
pub(super) fn expert_matmul(step: &Step, x: &Tensor, w: &Tensor, index: &Tensor) -> Result<Tensor> {
    let (experts, n, k) = w.dims3()?;
    let (tokens, chosen) = index.dims2()?;
    let each = x.rank() == 3;
    let expected = if each { vec![tokens, chosen, k] } else { vec![tokens, k] };
    if x.dims() != expected {
        return Err(operand(step, format!("x has shape {:?}, expected {expected:?}", x.dims())));
    }
    let places = index.elem_count();
    let ids = ids_of(step, index, experts)?;
    let mut of_expert: Vec<Vec<usize>> = vec![Vec::new(); experts];
    for (place, id) in ids.into_iter().enumerate() {
        of_expert[id as usize].push(place);
    }
    let mut out = vec![0f32; places * n];
    for (expert, places) in of_expert.iter().enumerate() {
        if places.is_empty() || n == 0 || k == 0 {
            continue;
        }
        let mut rows = Vec::with_capacity(places.len() * k);
        with_slice(x, |x| {
            for &place in places {
                let row = if each { place } else { place / chosen };
                rows.extend_from_slice(&x[row * k..][..k]);
            }
        })?;
        let rows = Tensor::from_vec(rows, (places.len(), k), &Device::Cpu)?;
        let y = rows.matmul(&w.get(expert)?.t()?)?;
        with_slice(&y, |y| {
            for (&place, y) in places.iter().zip(y.chunks_exact(n)) {
                out[place * n..][..n].copy_from_slice(y);
            }
        })?;
    }
    Ok(Tensor::from_vec(out, (tokens, chosen, n), &Device::Cpu)?)
}
