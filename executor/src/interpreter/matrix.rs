//! Matrix products.

use crate::error::Result;
use candle_core::{D, Tensor};

/// x `[…, K]` times W `[N, K]` transposed.
pub(super) fn matmul(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let mut dims = x.dims().to_vec();
    let k = x.dim(D::Minus1)?;
    let flat = x.contiguous()?.reshape((x.elem_count() / k.max(1), k))?;
    let y = flat.matmul(&w.t()?)?;
    if let Some(last) = dims.last_mut() {
        *last = w.dim(0)?;
    }
    Ok(y.reshape(dims)?)
}

/// `x·Wᵀ + (alpha/rank) · x·Aᵀ·Bᵀ`.
pub(super) fn lora(x: &[Tensor], rank: u32, alpha: f32) -> Result<Tensor> {
    let low = matmul(&matmul(&x[0], &x[2])?, &x[3])?;
    Ok((matmul(&x[0], &x[1])? + (low * f64::from(alpha / rank as f32))?)?)
}
