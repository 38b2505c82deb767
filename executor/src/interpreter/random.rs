//! Operations that draw from the session's generator.

use super::Frame;
use super::layout::operand;
use crate::error::Result;
use crate::sampling::rng::{at, key};
use crate::sampling::{Sampler, SamplingParams};
use crate::value::with_slice;
use candle_core::{Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::SampleMethod;

/// Where the random numbers of a session stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RandomState {
    /// The start of the sequence.
    pub seed: u64,
    /// Random steps that the session has run.
    pub draws: u64,
}

impl RandomState {
    /// The key of the next random step, which the seed of its payload is part of.
    fn next(&mut self, payload: u32) -> u64 {
        let key = key(&[self.seed, self.draws, payload.into()]);
        self.draws = self.draws.wrapping_add(1);
        key
    }
}

/// Standard normal values in the shape of `like`. Value `i` follows from the key of the step and `i` alone.
pub(super) fn normal(seed: u32, like: &Tensor, frame: &mut Frame<'_>) -> Result<Tensor> {
    let key = frame.random.next(seed);
    let values: Vec<f32> = (0..like.elem_count() as u64).map(|i| standard_normal(at(key, i))).collect();
    Ok(Tensor::from_vec(values, like.shape(), &Device::Cpu)?)
}

/// One token id per row of logits; row `i` draws from the key of the step and `i` alone.
pub(super) fn sample(step: &Step, logits: &Tensor, frame: &mut Frame<'_>) -> Result<Tensor> {
    let Op::Sample { method, temperature, p, k } = step.op else {
        return Err(operand(step, "no choice of tokens".into()));
    };
    let mut params = SamplingParams { temperature: temperature.get(), ..SamplingParams::default() };
    match method {
        SampleMethod::Greedy => params.temperature = 0.0,
        SampleMethod::Temperature => {}
        SampleMethod::TopK => params.top_k = k as usize,
        SampleMethod::TopP => params.top_p = p.get(),
        SampleMethod::MinP => params.min_p = p.get(),
    }
    let key = frame.random.next(0);
    let Some((&width, rows)) = logits.dims().split_last() else {
        return Err(operand(step, "logits is a scalar".into()));
    };
    let count = rows.iter().product::<usize>();
    let ids = with_slice(logits, |values| {
        (0..count)
            .map(|row| {
                let seed = at(key, row as u64);
                let mut sampler = Sampler::new(SamplingParams { seed, ..params })?;
                sampler.sample(&values[row * width..][..width], &[]).map(i64::from)
            })
            .enumerate()
            .map(|(row, id)| id.map_err(|e| operand(step, format!("row {row}: {e}"))))
            .collect::<Result<Vec<i64>>>()
    })??;
    Ok(Tensor::from_vec(ids, rows, &Device::Cpu)?)
}

/// The value below which a standard normal variable stays with the probability that 64 random bits name:
/// algorithm AS 241 (Wichura 1988), good to one part in 10¹⁶. Sums, products and square roots only, so
/// that it is the same on every machine.
fn standard_normal(bits: u64) -> f32 {
    // The middle of one of 2⁵² equal parts of (0, 1), which a double holds exactly: never 0 or 1.
    let p = ((bits >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    let q = p - 0.5;
    let ratio = |x: f64, above: [f64; 8], below: [f64; 8]| {
        let sum = |c: [f64; 8]| c.into_iter().rev().fold(0.0, |total, c| total * x + c);
        sum(above) / sum(below)
    };
    if q.abs() <= 0.425 {
        return (q * ratio(0.180625 - q * q, CENTRE.0, CENTRE.1)) as f32;
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-natural_log(tail)).sqrt();
    let far = if r <= 5.0 { ratio(r - 1.6, MIDDLE.0, MIDDLE.1) } else { ratio(r - 5.0, TAIL.0, TAIL.1) };
    (if q < 0.0 { -far } else { far }) as f32
}

/// The natural logarithm of a positive normal number, by the series of the inverse hyperbolic tangent.
fn natural_log(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..12).rev().fold(0.0, |total, n| total * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Coefficients of numerator and denominator, by rising power.
type Ratio = ([f64; 8], [f64; 8]);

/// For |p − 1/2| ≤ 0.425.
const CENTRE: Ratio = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
);

/// For √(−ln p) ≤ 5, from 1.6.
const MIDDLE: Ratio = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        1.050_750_071_644_416_9e-9,
    ],
);

/// Beyond, from 5.
const TAIL: Ratio = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_3,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_7e-15,
    ],
);

#[cfg(test)]
mod tests;
