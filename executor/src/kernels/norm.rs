//! Normalisation of rows. Sums are over thirty-two lanes in double precision.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::{KernelError, Team, check_len};

/// Elements below which a call stays on one thread.
const CHUNK: usize = 8192;

/// `out = x / √(mean(x²) + epsilon) · gain` over each row of `x` `[rows, gain.len()]`.
///
/// # Errors
/// [`KernelError::Length`] unless `x` and `out` hold the same whole number of rows.
pub fn rms_norm(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32], team: &Team) -> Result<(), KernelError> {
    for_rows(x, gain.len(), out, team, |x, out| {
        rms_norm_row(x, gain, epsilon, out);
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
        layer_norm_row(x, gain, bias, epsilon, out);
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

/// Lanes of a sum: lane `i` takes the elements whose index is `i` modulo 32.
const LANES: usize = 32;

/// Adds lanes `i` and `i + 16`, then `i + 8` and so on.
#[inline(always)]
fn add_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
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
    add_lanes(lanes)
}

/// The factor of a root-mean-square norm.
#[inline(always)]
fn rms_factor(x: &[f32], epsilon: f32) -> f32 {
    let mean = sum(x, |x| x * x) / x.len() as f64;
    (1.0 / (mean + f64::from(epsilon)).sqrt()) as f32
}

/// [`rms_norm_heads`] within a function that is compiled for an instruction set.
#[inline(always)]
pub(super) fn rms_head(x: &mut [f32], gain: &[f32], epsilon: f32) {
    let factor = rms_factor(x, epsilon);
    for (x, &gain) in x.iter_mut().zip(gain) {
        *x = *x * factor * gain;
    }
}

#[inline(always)]
fn layer(x: &[f32], gain: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
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

#[inline(always)]
fn add(x: &[f32], skip: &[f32], sum: &mut [f32]) {
    for ((sum, x), skip) in sum.iter_mut().zip(x).zip(skip) {
        *sum = x + skip;
    }
}

multiversion! {
    /// [`rms_norm`] of one row, on this thread. All slices have one length.
    pub fn rms_norm_row(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
        let factor = rms_factor(x, epsilon);
        for ((out, &x), &gain) in out.iter_mut().zip(x).zip(gain) {
            *out = x * factor * gain;
        }
    }
}

multiversion! {
    /// `sum = x + skip`, and [`rms_norm`] of it, of one row on this thread. All slices have one length.
    pub fn skip_rms_norm_row(
        x: &[f32],
        skip: &[f32],
        gain: &[f32],
        epsilon: f32,
        sum: &mut [f32],
        out: &mut [f32],
    ) {
        add(x, skip, sum);
        let factor = rms_factor(sum, epsilon);
        for ((out, &x), &gain) in out.iter_mut().zip(&*sum).zip(gain) {
            *out = x * factor * gain;
        }
    }
}

multiversion! {
    /// `x = x + skip` of one row on this thread, and what [`rms_norm`] multiplies that row by beside the
    /// gain: for those who normalise while they read the row.
    pub fn skip_rms_factor(x: &mut [f32], skip: &[f32], epsilon: f32) -> f32 {
        for (x, skip) in x.iter_mut().zip(skip) {
            *x += skip;
        }
        rms_factor(x, epsilon)
    }
}

multiversion! {
    /// [`rms_norm`] of each head of a row in place, on this thread; `gain` has the length of a head.
    pub fn rms_norm_heads(row: &mut [f32], gain: &[f32], epsilon: f32) {
        for head in row.chunks_exact_mut(gain.len().max(1)) {
            rms_head(head, gain, epsilon);
        }
    }
}

multiversion! {
    /// [`layer_norm`] of one row, on this thread. All slices have one length.
    pub fn layer_norm_row(x: &[f32], gain: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
        layer(x, gain, bias, epsilon, out);
    }
}

multiversion! {
    /// `sum = x + skip`, and [`layer_norm`] of it, of one row on this thread. All slices have one length.
    pub fn skip_layer_norm_row(
        x: &[f32],
        skip: &[f32],
        gain: &[f32],
        bias: Option<&[f32]>,
        epsilon: f32,
        sum: &mut [f32],
        out: &mut [f32],
    ) {
        add(x, skip, sum);
        layer(sum, gain, bias, epsilon, out);
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

    #[test]
    fn kernels_norms_of_rows_are_those_of_calls() {
        let team = Team::new(1).unwrap();
        for dim in [1, 31, 33, 64, 257] {
            let (x, skip, gain) = (values(dim), values(dim + 9), values(dim + 2));
            let (skip, gain) = (&skip[9..], &gain[2..]);
            let both: Vec<f32> = x.iter().zip(skip).map(|(x, skip)| x + skip).collect();
            let (mut want, mut out, mut sum) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
            rms_norm(&both, gain, 1e-6, &mut want, &team).unwrap();
            skip_rms_norm_row(&x, skip, gain, 1e-6, &mut sum, &mut out);
            assert_eq!((&out, &sum), (&want, &both));
            let mut x2 = x.clone();
            let factor = skip_rms_factor(&mut x2, skip, 1e-6);
            let own: Vec<f32> = x2.iter().zip(gain).map(|(x, gain)| x * factor * gain).collect();
            assert_eq!((&own, &x2), (&want, &both));
            let mut heads = [both.clone(), x.clone(), both.clone()].concat();
            rms_norm_heads(&mut heads, gain, 1e-6);
            assert_eq!((&heads[..dim], &heads[2 * dim..]), (&want[..], &want[..]));
            layer_norm(&both, gain, Some(skip), 1e-6, &mut want, &team).unwrap();
            skip_layer_norm_row(&x, skip, gain, Some(skip), 1e-6, &mut sum, &mut out);
            assert_eq!((&out, &sum), (&want, &both));
        }
    }
}
