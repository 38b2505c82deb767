//! Normalisations, in double precision.

use super::elementwise::binary;
use super::host;
use crate::error::Result;
use candle_core::Tensor;
use tallow_compiler::Step;
use tallow_ir::Op;

/// ε of `AdaLN`, which has no field for it.
const ADAPTIVE_EPS: f64 = 1e-6;

/// `x / √(mean(x²) + ε) · g` over the last dimension.
pub(super) fn rms(x: &Tensor, gain: &Tensor, eps: f32) -> Result<Tensor> {
    let (mut values, gain) = (doubles(x)?, doubles(gain)?);
    for row in values.chunks_mut(gain.len().max(1)) {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
        let scale = (mean + f64::from(eps)).sqrt();
        row.iter_mut().zip(&gain).for_each(|(v, g)| *v = *v / scale * g);
    }
    tensor(values, x)
}

/// `(x − mean) / √(variance + ε) · g + b` over the last dimension.
pub(super) fn layer(x: &Tensor, gain: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    let mut values = doubles(x)?;
    let (gain, bias) = (doubles(gain)?, doubles(bias)?);
    standardise(&mut values, gain.len(), f64::from(eps));
    for row in values.chunks_mut(gain.len().max(1)) {
        row.iter_mut().zip(&gain).zip(&bias).for_each(|((v, g), b)| *v = *v * g + b);
    }
    tensor(values, x)
}

/// `(x − mean) / √(variance + ε) · g + b` with stored statistics of each channel of `[N, C, …]`.
pub(super) fn batch(x: &[Tensor], eps: f32) -> Result<Tensor> {
    let mut values = doubles(&x[0])?;
    let (mean, variance) = (doubles(&x[3])?, doubles(&x[4])?);
    let stride = x[0].dims()[2..].iter().product::<usize>().max(1);
    for (i, v) in values.iter_mut().enumerate() {
        let c = i / stride % mean.len();
        *v = (*v - mean[c]) / (variance[c] + f64::from(eps)).sqrt();
    }
    scale_channels(&mut values, stride, &doubles(&x[1])?, &doubles(&x[2])?);
    tensor(values, &x[0])
}

/// Normalised over each of `groups` runs of channels of `[N, C, …]`; the channels then have a gain
/// and a bias of their own. One group per channel is instance normalisation.
pub(super) fn grouped(x: &[Tensor], groups: usize, eps: f32) -> Result<Tensor> {
    let mut values = doubles(&x[0])?;
    let stride = x[0].dims()[2..].iter().product::<usize>().max(1);
    let channels = x[0].dim(1)?;
    standardise(&mut values, channels / groups.max(1) * stride, f64::from(eps));
    scale_channels(&mut values, stride, &doubles(&x[1])?, &doubles(&x[2])?);
    tensor(values, &x[0])
}

/// `norm(x) · (1 + scale) + shift` over the last dimension. A matrix beside an x of more dimensions
/// holds a row per sample.
pub(super) fn adaptive(step: &Step, x: &Tensor, scale: &Tensor, shift: &Tensor) -> Result<Tensor> {
    let mut values = doubles(x)?;
    standardise(&mut values, x.dims().last().copied().unwrap_or(1), ADAPTIVE_EPS);
    let spread = |t: &Tensor| -> Result<Tensor> {
        if t.rank() != 2 || x.rank() < 3 {
            return Ok(t.clone());
        }
        let mut dims = vec![1; x.rank()];
        (dims[0], dims[x.rank() - 1]) = (t.dim(0)?, t.dim(1)?);
        Ok(t.contiguous()?.reshape(dims)?)
    };
    let scaled = binary(step, &Op::Mul, &tensor(values, x)?, &(spread(scale)? + 1.0)?)?;
    binary(step, &Op::Add, &scaled, &spread(shift)?)
}

/// `(x − mean) / √(variance + ε)` over each run of `n` values.
fn standardise(values: &mut [f64], n: usize, eps: f64) {
    for run in values.chunks_mut(n.max(1)) {
        let count = run.len() as f64;
        let mean = run.iter().sum::<f64>() / count;
        let variance = run.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / count;
        let scale = (variance + eps).sqrt();
        run.iter_mut().for_each(|v| *v = (*v - mean) / scale);
    }
}

/// `x · g + b` by channel; values of one channel stand `stride` in a row.
fn scale_channels(values: &mut [f64], stride: usize, gain: &[f64], bias: &[f64]) {
    for (i, v) in values.iter_mut().enumerate() {
        let c = i / stride % gain.len();
        *v = *v * gain[c] + bias[c];
    }
}

fn doubles(x: &Tensor) -> Result<Vec<f64>> {
    Ok(host::values::<f32>(x)?.into_iter().map(f64::from).collect())
}

/// The values as an `f32` tensor of x's shape.
fn tensor(values: Vec<f64>, x: &Tensor) -> Result<Tensor> {
    host::tensor(values.into_iter().map(|v| v as f32).collect(), x.dims())
}
