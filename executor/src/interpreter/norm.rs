//! Normalisations over the last dimension.

use crate::error::Result;
use candle_core::{D, Tensor};

/// `x / √(mean(x²) + ε) · g`.
pub(super) fn rms(x: &Tensor, gain: &Tensor, eps: f32) -> Result<Tensor> {
    let scale = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    Ok(x.broadcast_div(&scale)?.broadcast_mul(gain)?)
}

/// `(x − mean) / √(variance + ε) · g + b`.
pub(super) fn layer(x: &Tensor, gain: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let scale = (centred.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    Ok(centred.broadcast_div(&scale)?.broadcast_mul(gain)?.broadcast_add(bias)?)
}
