//! Frequencies of rotary embedding under each kind of scaling.
//!
//! The formulas are those of the papers (linear: Chen 2023; dynamic: NTK-aware; YaRN: Peng 2023;
//! LongRoPE: Ding 2024; llama3: Meta's reference) as the `transformers` library applies them.

use crate::Op;
use crate::ops::Scaling;
use std::f64::consts::PI;

/// The angles of one call: token at position `p` rotates pair `j` by `p · frequencies[j]`; cosines
/// and sines are multiplied by `factor`.
#[derive(Clone, Debug, PartialEq)]
pub struct Angles {
    /// One frequency per pair, in radians a position.
    pub frequencies: Vec<f32>,
    /// Factor on cosines and sines.
    pub factor: f32,
}

/// The angles of `Rope` or `RopeScaled` for a call whose tokens reach up to `length` positions
/// (last position + 1); `None` for another operation. Only `Dynamic` and `LongRope` look at the
/// length.
pub fn angles(op: &Op, length: u64) -> Option<Angles> {
    match op {
        Op::Rope { head_dim, rope_dim, base } => {
            let pairs = *head_dim as usize / 2;
            let turning = *rope_dim as usize / 2;
            let frequencies = (0..pairs)
                .map(|j| if j < turning { plain(f64::from(base.get()), j, *head_dim) as f32 } else { 0.0 })
                .collect();
            Some(Angles { frequencies, factor: 1.0 })
        }
        Op::RopeScaled {
            rope_dim, base, scaling, factor, original, low, high, attention_factor, short, long, ..
        } => {
            let base = f64::from(base.get());
            let (factor, low, high) = (f64::from(factor.get()), f64::from(low.get()), f64::from(high.get()));
            let d = *rope_dim;
            let original = f64::from(*original);
            let past = length as f64 > original;
            let list = if *scaling == Scaling::LongRope && past { long } else { short };
            let base = match scaling {
                Scaling::Dynamic if past => {
                    let stretch = factor * length as f64 / original - (factor - 1.0);
                    base * stretch.powf(f64::from(d) / (f64::from(d) - 2.0))
                }
                _ => base,
            };
            let frequencies = (0..d as usize / 2)
                .map(|j| {
                    let f = plain(base, j, d);
                    let scaled = match scaling {
                        Scaling::Unscaled | Scaling::Dynamic => f,
                        Scaling::Linear => f / factor,
                        Scaling::Yarn | Scaling::YarnExact => {
                            let ramp = yarn_ramp(*scaling == Scaling::Yarn, base, d, original, low, high, j);
                            f * (1.0 - ramp) + f / factor * ramp
                        }
                        Scaling::Llama3 => {
                            let wavelength = 2.0 * PI / f;
                            if wavelength < original / high {
                                f
                            } else if wavelength > original / low {
                                f / factor
                            } else {
                                let s = (original / wavelength - low) / (high - low);
                                f * s + f / factor * (1.0 - s)
                            }
                        }
                        Scaling::LongRope | Scaling::Factors => f / list.get(j).map_or(1.0, |e| f64::from(e.get())),
                    };
                    scaled as f32
                })
                .collect();
            Some(Angles { frequencies, factor: attention_factor.get() })
        }
        _ => None,
    }
}

/// The pairs of a head as `RopeMulti` turns them: the axis whose position turns pair `j`, and its
/// frequency in radians a position; `None` for another operation. Sections that run on are those of
/// Qwen2-VL (Wang 2024), sections that restart those of its rotary embedding of pictures.
pub fn multi_angles(op: &Op) -> Option<Vec<(usize, f32)>> {
    let Op::RopeMulti { head_dim, base, sections, restart, .. } = op else {
        return None;
    };
    let base = f64::from(base.get());
    let mut pairs = Vec::new();
    for (axis, &size) in sections.iter().enumerate() {
        for j in 0..size as usize {
            let frequency = match restart {
                true => plain(base, j, size.saturating_mul(2)),
                false => plain(base, pairs.len(), *head_dim),
            };
            pairs.push((axis, frequency as f32));
        }
    }
    Some(pairs)
}

fn plain(base: f64, pair: usize, width: u32) -> f64 {
    base.powf(-2.0 * pair as f64 / f64::from(width))
}

/// 0 where pair `j` keeps its frequency, 1 where it is divided by the factor.
fn yarn_ramp(round: bool, base: f64, width: u32, original: f64, slow: f64, fast: f64, j: usize) -> f64 {
    let width = f64::from(width);
    let pair_of = |turns: f64| width * (original / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
    let (mut lo, mut hi) = (pair_of(fast), pair_of(slow));
    if round {
        (lo, hi) = (lo.floor(), hi.ceil());
    }
    lo = lo.max(0.0);
    hi = hi.min(width - 1.0);
    if lo == hi {
        hi += 0.001;
    }
    ((j as f64 - lo) / (hi - lo)).clamp(0.0, 1.0)
}
