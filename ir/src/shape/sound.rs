//! Spectrograms of sound.

use super::{Context, Types, bail, float, overflow};
use crate::{Dim, Op, Shape, TensorType};

/// The longest window; bounds what a hostile graph can cost.
const MAX_FFT: u32 = 1 << 14;
/// The most bands.
const MAX_MELS: u32 = 1 << 10;

/// samples `[N]` or `[B, N]` give `[mels, ⌊N/hop⌋]` or `[B, mels, ⌊N/hop⌋]`.
pub(crate) fn log_mel(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::LogMel { sample_rate, fft, hop, mels, low, high, .. } = op else { bail!("{} is no LogMel", op.name()) };
    float("samples", &x[0])?;
    if *sample_rate == 0 {
        bail!("sample_rate is 0, expected at least 1");
    }
    if *fft < 2 || *fft > MAX_FFT || fft % 2 != 0 {
        bail!("fft is {fft}, expected an even number from 2 to {MAX_FFT}");
    }
    if *hop == 0 {
        bail!("hop is 0, expected at least 1");
    }
    if *mels == 0 || *mels > MAX_MELS {
        bail!("mels is {mels}, expected 1 to {MAX_MELS}");
    }
    let (low, high, half) = (f64::from(low.get()), f64::from(high.get()), f64::from(*sample_rate) / 2.0);
    if !(0.0 <= low && low < high && high <= half) {
        bail!("low is {low} and high {high}, expected 0 ≤ low < high ≤ {half} (half of sample_rate)");
    }
    let (batch, samples) = match x[0].shape.dims() {
        [n] => (&[][..], n),
        [b, n] => (std::slice::from_ref(b), n),
        _ => bail!("samples has shape {}, expected [N] or [B, N]", x[0].shape),
    };
    if samples.as_const().is_some_and(|n| n <= i64::from(*fft / 2)) {
        bail!(
            "samples has {samples} samples, expected more than {} (half of fft), which reflect at both ends",
            fft / 2
        );
    }
    let frames = samples.div_floor(i64::from(*hop)).ok_or_else(overflow)?;
    let dims = batch.iter().cloned().chain([Dim::constant(i64::from(*mels)), frames]);
    Ok(vec![TensorType::f32(Shape::new(dims))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;
    use crate::ops::{MelLog, MelScale};

    fn op(sample_rate: u32, fft: u32, hop: u32, mels: u32, low: f32, high: f32) -> Op {
        let (low, high) = (low.into(), high.into());
        Op::LogMel { sample_rate, fft, hop, mels, low, high, scale: MelScale::Slaney, log: MelLog::Whisper }
    }

    #[test]
    fn spectrograms() {
        let whisper = op(16000, 400, 160, 80, 0.0, 8000.0);
        assert_eq!(good(whisper.clone(), &[f("480000")]), "f32[80, 3000]");
        assert_eq!(good(whisper.clone(), &[f("B, 1000")]), "f32[B, 80, 6]");
        assert_eq!(good(whisper.clone(), &[f("N")]), "f32[80, floor(N/160)]");
        bad(whisper.clone(), &[f("200")], "expected more than 200");
        bad(whisper.clone(), &[f("1, 1, 1000")], "expected [N] or [B, N]");
        bad(whisper.clone(), &[f("")], "expected [N] or [B, N]");
        bad(whisper, &[t(DType::I64, "1000")], "samples has the type i64");
        bad(op(0, 400, 160, 80, 0.0, 8000.0), &[f("N")], "sample_rate is 0");
        bad(op(16000, 401, 160, 80, 0.0, 8000.0), &[f("N")], "fft is 401, expected an even number");
        bad(op(16000, 0, 160, 80, 0.0, 8000.0), &[f("N")], "fft is 0");
        bad(op(16000, u32::MAX - 1, 160, 80, 0.0, 8000.0), &[f("N")], "to 16384");
        bad(op(16000, 400, 0, 80, 0.0, 8000.0), &[f("N")], "hop is 0");
        bad(op(16000, 400, 160, 0, 0.0, 8000.0), &[f("N")], "mels is 0");
        bad(op(16000, 400, 160, u32::MAX, 0.0, 8000.0), &[f("N")], "expected 1 to 1024");
        bad(op(16000, 400, 160, 80, -1.0, 8000.0), &[f("N")], "low is -1");
        bad(op(16000, 400, 160, 80, 8000.0, 8000.0), &[f("N")], "low < high");
        bad(op(16000, 400, 160, 80, 0.0, 8001.0), &[f("N")], "≤ 8000");
        bad(op(16000, 400, 160, 80, 0.0, f32::NAN), &[f("N")], "high NaN");
    }
}
