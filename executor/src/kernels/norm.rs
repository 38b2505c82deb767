//! Normalisation of rows. Sums are over eight lanes in double precision.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::math::{LANES, add_lanes_f64};
use super::{KernelError, Team, check_len};

/// Elements below which a call stays on one thread.
const CHUNK: usize = 8192;

/// `out = x / √(mean(x²) + epsilon) · gain` over each row of `x` `[rows, gain.len()]`.
///
/// # Errors
/// [`KernelError::Length`] unless `x` and `out` hold the same whole number of rows.
pub fn rms_norm(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32], team: &Team) -> Result<(), KernelError> {
    for_rows(x, gain.len(), out, team, |x, out| {
        rms_row(x, gain, epsilon, out);
    })
}

/// `out = (x − mean) / √(variance + epsilon) · gain + bias` over each row of `x`
/// `[rows, gain.len()]`.
///
/// # Errors
/// [`KernelError::Length`].
pub fn layer_norm(
    x: &[f32],
    gain: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
    out: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    if let Some(bias) = bias {
        check_len("bias of a layer norm", bias.len(), Some(gain.len()))?;
    }
    for_rows(x, gain.len(), out, team, |x, out| {
        layer_row(x, gain, bias, epsilon, out);
    })
}

/// Checks the lengths and calls `f` for each row of the input and of the output.
#[allow(unsafe_code, reason = "threads write disjoint rows of the output")]
fn for_rows(
    x: &[f32],
    dim: usize,
    out: &mut [f32],
    team: &Team,
    f: impl Fn(&[f32], &mut [f32]) + Sync,
) -> Result<(), KernelError> {
    let rows = x.len().checked_div(dim).unwrap_or(0);
    check_len("input of a norm", x.len(), rows.checked_mul(dim))?;
    check_len("output of a norm", out.len(), Some(x.len()))?;
    let out = Disjoint::new(out);
    team.run_chunks(rows, (CHUNK / dim.max(1)).max(1), |range| {
        for row in range {
            let range = row * dim..(row + 1) * dim;
            // SAFETY: every row is in one range only.
            f(&x[range.clone()], unsafe { out.part(range) });
        }
    });
    Ok(())
}

/// Sums `f(x)` over a row.
#[inline(always)]
fn sum(x: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(f64::from(x));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(f64::from(x));
    }
    add_lanes_f64(lanes)
}

multiversion! {
    pub(crate) fn rms_row(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
        let mean = sum(x, |x| x * x) / x.len() as f64;
        let factor = (1.0 / (mean + f64::from(epsilon)).sqrt()) as f32;
        for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
            *out = x * factor * gain;
        }
    }
}

multiversion! {
    pub(crate) fn layer_row(x: &[f32], gain: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
        let count = x.len() as f64;
        let mean = sum(x, |x| x) / count;
        let variance = sum(x, |x| (x - mean) * (x - mean)) / count;
        let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
        for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
            *out = ((f64::from(x) - mean) * factor) as f32 * gain;
        }
        for (out, &bias) in out.iter_mut().zip(bias.unwrap_or_default()) {
            *out += bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 29) % 83) as f32 / 20.0 - 1.7).collect()
    }

    #[test]
    fn kernels_norms_match_the_formulas() {
        for dim in [1, 5, 8, 64, 900] {
            let (x, gain, bias) = (values(11 * dim), values(dim), values(dim + 3));
            let bias = &bias[3..];
            for threads in [1, 2] {
                let team = Team::new(threads).unwrap();
                let (mut rms, mut layer) = (vec![0.0; x.len()], vec![0.0; x.len()]);
                rms_norm(&x, &gain, 1e-5, &mut rms, &team).unwrap();
                layer_norm(&x, &gain, Some(bias), 1e-5, &mut layer, &team).unwrap();
                for (row, x) in x.chunks(dim).enumerate() {
                    let count = dim as f64;
                    let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count;
                    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
                    let variance = square - mean * mean;
                    for (i, &x) in x.iter().enumerate() {
                        let (x, gain) = (f64::from(x), f64::from(gain[i]));
                        let want = x / (square + 1e-5).sqrt() * gain;
                        let got = f64::from(rms[row * dim + i]);
                        assert!((got - want).abs() < 1e-6 * want.abs().max(1.0));
                        let want = (x - mean) / (variance + 1e-5).sqrt() * gain + f64::from(bias[i]);
                        let got = f64::from(layer[row * dim + i]);
                        assert!((got - want).abs() < 2e-6 * want.abs().max(1.0));
                    }
                }
            }
        }
    }

    #[test]
    fn kernels_norms_refuse_broken_rows() {
        let team = Team::new(1).unwrap();
        let mut out = [0.0; 3];
        assert!(rms_norm(&[1.0; 3], &[1.0; 2], 0.1, &mut out, &team).is_err());
        assert!(rms_norm(&[1.0; 3], &[], 0.1, &mut out, &team).is_err());
        assert!(layer_norm(&[1.0; 3], &[1.0; 3], Some(&[]), 0.1, &mut out, &team).is_err());
    }
}
