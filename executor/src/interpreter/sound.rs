//! The mel spectrogram, as Whisper's feature extractor computes it.

use super::layout::operand;
use super::limits::elements;
use crate::error::Result;
use crate::value::with_slice;
use candle_core::{Device, Tensor};
use std::f64::consts::PI;
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::{MelLog, MelScale};

/// The least power that has a logarithm.
const FLOOR: f64 = 1e-10;

/// samples `[N]` or `[B, N]` to `[mels, ⌊N/hop⌋]` or `[B, mels, ⌊N/hop⌋]`, in double precision within.
///
/// Frame t is the `fft` samples around sample `t·hop`, reflected at both ends, under a periodic Hann
/// window; the frame that would begin the next hop is dropped. Bands are triangles over the power of
/// its Fourier transform.
pub(super) fn log_mel(step: &Step, samples: &Tensor) -> Result<Tensor> {
    let &Op::LogMel { sample_rate, fft, hop, mels, low, high, scale, log } = &step.op else {
        return Err(operand(step, format!("{} is no LogMel", step.op.name())));
    };
    let (fft, hop, mels) = (fft as usize, hop as usize, mels as usize);
    let (batch, n) = match samples.dims() {
        &[n] => (1, n),
        &[batch, n] => (batch, n),
        dims => return Err(operand(step, format!("samples has the shape {dims:?}, expected [N] or [B, N]"))),
    };
    if n <= fft / 2 {
        let cause = format!("{n} samples are too few, expected more than {} (half of fft), which reflect", fft / 2);
        return Err(operand(step, cause));
    }
    let frames = n / hop.max(1);
    let mut dims = vec![mels, frames];
    if samples.rank() == 2 {
        dims.insert(0, batch);
    }
    let mut y = vec![0f32; elements(step, &dims)?];
    let bands = bands(scale, mels, [low.get().into(), high.get().into()], sample_rate, fft);
    let window: Vec<f64> = (0..fft).map(|i| 0.5 - 0.5 * (2.0 * PI * i as f64 / fft as f64).cos()).collect();
    let transform = Fourier::new(fft);
    with_slice(samples, |samples| {
        if y.is_empty() {
            return;
        }
        for (samples, y) in samples.chunks(n).zip(y.chunks_mut(mels * frames)) {
            let mut values = vec![0f64; mels * frames];
            for t in 0..frames {
                let frame = window.iter().enumerate().map(|(i, w)| {
                    let at = (t * hop + i).abs_diff(fft / 2);
                    w * f64::from(samples[if at < n { at } else { 2 * (n - 1) - at }])
                });
                let power = transform.power(&frame.collect::<Vec<_>>());
                for (m, (first, weights)) in bands.iter().enumerate() {
                    values[m * frames + t] = weights.iter().zip(&power[*first..]).map(|(w, p)| w * p).sum();
                }
            }
            scaled(log, &mut values);
            y.iter_mut().zip(&values).for_each(|(y, v)| *y = *v as f32);
        }
    })?;
    Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
}

/// Powers of one item as the operation gives them.
fn scaled(log: MelLog, values: &mut [f64]) {
    match log {
        MelLog::Power => {}
        MelLog::Natural => values.iter_mut().for_each(|v| *v = v.max(FLOOR).ln()),
        MelLog::Whisper => {
            values.iter_mut().for_each(|v| *v = v.max(FLOOR).log10());
            let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            values.iter_mut().for_each(|v| *v = (v.max(top - 8.0) + 4.0) / 4.0);
        }
    }
}

/// The triangles over the frequencies `0, rate/fft … rate/2` whose corners are spaced evenly on the mel
/// scale: the first frequency inside, and weights from there.
fn bands(scale: MelScale, mels: usize, range: [f64; 2], rate: u32, fft: usize) -> Vec<(usize, Vec<f64>)> {
    let [low, high] = range.map(|f| to_mel(scale, f));
    let corner = |i: usize| to_hertz(scale, low + (high - low) * i as f64 / (mels + 1) as f64);
    let bins = fft / 2 + 1;
    // As NumPy's linspace to the whole half of the rate.
    let frequency = |i: usize| f64::from(rate / 2) * i as f64 / (bins - 1) as f64;
    (0..mels)
        .map(|m| {
            let [left, peak, right] = [corner(m), corner(m + 1), corner(m + 2)];
            let height = match scale {
                MelScale::Slaney => 2.0 / (right - left),
                MelScale::Htk => 1.0,
            };
            let weight = |i: usize| {
                let f = frequency(i);
                height * ((f - left) / (peak - left)).min((right - f) / (right - peak)).max(0.0)
            };
            let first = (0..bins).find(|&i| weight(i) > 0.0).unwrap_or(bins);
            (first, (first..bins).map(weight).take_while(|w| *w > 0.0).collect())
        })
        .collect()
}

/// Where Slaney's scale turns logarithmic, in hertz; 15 mel.
const TURN: f64 = 1000.0;

fn to_mel(scale: MelScale, hertz: f64) -> f64 {
    match scale {
        MelScale::Slaney if hertz >= TURN => 15.0 + (hertz / TURN).ln() * 27.0 / 6.4f64.ln(),
        MelScale::Slaney => 3.0 * hertz / 200.0,
        MelScale::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
    }
}

fn to_hertz(scale: MelScale, mel: f64) -> f64 {
    match scale {
        MelScale::Slaney if mel >= 15.0 => TURN * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp(),
        MelScale::Slaney => 200.0 * mel / 3.0,
        MelScale::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
    }
}

/// A complex number.
type Complex = (f64, f64);

/// The discrete Fourier transform of one length, by its prime factors (Cooley and Tukey 1965).
struct Fourier {
    /// `exp(-2πi·k/n)` for k below n.
    turns: Vec<Complex>,
}

impl Fourier {
    fn new(n: usize) -> Self {
        let turn = |k| (-2.0 * PI * k as f64 / n as f64).sin_cos();
        Fourier { turns: (0..n).map(turn).map(|(sin, cos)| (cos, sin)).collect() }
    }

    /// Squared magnitudes of the frequencies from 0 to half of the length.
    fn power(&self, values: &[f64]) -> Vec<f64> {
        let values: Vec<Complex> = values.iter().map(|&v| (v, 0.0)).collect();
        let n = values.len();
        self.transform(&values, 0, 1).iter().take(n / 2 + 1).map(|(re, im)| re * re + im * im).collect()
    }

    /// The transform of every `step`-th value from `from` on.
    fn transform(&self, values: &[Complex], from: usize, step: usize) -> Vec<Complex> {
        let n = values.len() / step;
        let radix = (2..=n).find(|p| n.is_multiple_of(*p)).unwrap_or(1);
        if radix == 1 {
            return vec![values[from]];
        }
        let parts: Vec<Vec<Complex>> =
            (0..radix).map(|r| self.transform(values, from + r * step, step * radix)).collect();
        let length = n / radix;
        (0..n)
            .map(|k| {
                parts.iter().enumerate().fold((0.0, 0.0), |sum, (r, part)| {
                    let (a, b) = (part[k % length], self.turns[r * k % n * step]);
                    (sum.0 + a.0 * b.0 - a.1 * b.1, sum.1 + a.0 * b.1 + a.1 * b.0)
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_of_any_length_are_the_sums_they_stand_for() {
        for n in [2usize, 3, 4, 6, 30, 49, 64, 101, 400] {
            let values: Vec<f64> = (0..n).map(|i| (i * i % 17) as f64 / 7.0 - 1.0).collect();
            let power = Fourier::new(n).power(&values);
            assert_eq!(power.len(), n / 2 + 1);
            for (k, found) in power.iter().enumerate() {
                let sum = values.iter().enumerate().fold((0.0, 0.0), |(re, im), (i, v)| {
                    let (sin, cos) = (2.0 * PI * (i * k) as f64 / n as f64).sin_cos();
                    (re + v * cos, im - v * sin)
                });
                assert!((found - (sum.0 * sum.0 + sum.1 * sum.1)).abs() < 1e-8, "{n} {k}");
            }
        }
    }
}
