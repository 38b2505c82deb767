//! Softmax of rows.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::math::{LANES, add_lanes, exp};
use super::{KernelError, Team, check_len};

/// A mask at or below this hides, as −∞ does: masks hold −∞ or a finite number of that size, such as
/// the least that there is. So a maximum at or below it stands for a fully masked row.
pub(crate) const MASKED: f32 = -1e30;

/// Softmax of each row of `x` `[rows, dim]` into `out`; a fully masked row gives zeros.
///
/// # Errors
/// [`KernelError::Length`] unless both hold the same whole number of rows.
#[allow(unsafe_code, reason = "threads write disjoint rows of the output")]
pub fn softmax(x: &[f32], dim: usize, out: &mut [f32], team: &Team) -> Result<(), KernelError> {
    check_len("output of a softmax", out.len(), Some(x.len()))?;
    let rows = x.len().checked_div(dim).unwrap_or(0);
    check_len("input of a softmax", x.len(), rows.checked_mul(dim))?;
    let out = Disjoint::new(out);
    team.run_chunks(rows, (8192 / dim.max(1)).max(1), |range| {
        for row in range {
            let range = row * dim..(row + 1) * dim;
            // SAFETY: every row is in one range only.
            let part = unsafe { out.part(range.clone()) };
            part.copy_from_slice(&x[range]);
            let sum = exponentials(part);
            scale(part, if sum > 0.0 || sum.is_nan() { 1.0 / sum } else { 0.0 });
        }
    });
    Ok(())
}

multiversion! {
    /// Replaces scores by the exponentials of their distance to the largest and returns their
    /// sum, both zero when all are masked. The sum is over eight lanes.
    pub(super) fn exponentials(x: &mut [f32]) -> f32 {
        let mut highest = [f32::NEG_INFINITY; LANES];
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks {
            for (highest, &x) in highest.iter_mut().zip(chunk) {
                *highest = if x > *highest { x } else { *highest };
            }
        }
        let mut top = f32::NEG_INFINITY;
        for &x in highest.iter().chain(rest) {
            top = if x > top { x } else { top };
        }
        if top <= MASKED && !x.iter().any(|x| x.is_nan()) {
            x.fill(0.0);
            return 0.0;
        }
        let mut lanes = [0.0_f32; LANES];
        let (chunks, rest) = x.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for (x, lane) in chunk.iter_mut().zip(&mut lanes) {
                *x = exp(*x - top);
                *lane += *x;
            }
        }
        for (x, lane) in rest.iter_mut().zip(&mut lanes) {
            *x = exp(*x - top);
            *lane += *x;
        }
        add_lanes(lanes)
    }
}

multiversion! {
    /// Multiplies in place.
    pub(super) fn scale(x: &mut [f32], by: f32) {
        for x in x {
            *x *= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_softmax_matches_the_formula() {
        for dim in [1, 7, 8, 33, 300] {
            let x: Vec<f32> = (0..3 * dim).map(|i| ((i * 37) % 101) as f32 / 7.0).collect();
            let mut outs = Vec::new();
            for threads in [1, 3] {
                let team = Team::new(threads).unwrap();
                let mut out = vec![0.0; x.len()];
                softmax(&x, dim, &mut out, &team).unwrap();
                for (x, out) in x.chunks(dim).zip(out.chunks(dim)) {
                    let top = x.iter().cloned().fold(f32::MIN, f32::max);
                    let sum: f64 = x.iter().map(|x| f64::from(x - top).exp()).sum();
                    for (x, out) in x.iter().zip(out) {
                        let want = f64::from(x - top).exp() / sum;
                        assert!((f64::from(*out) - want).abs() < 1e-6);
                    }
                }
                outs.push(out);
            }
            assert_eq!(outs[0], outs[1]);
        }
    }

    #[test]
    fn kernels_softmax_of_masked_rows_is_zero() {
        let team = Team::new(1).unwrap();
        let (none, least) = (f32::NEG_INFINITY, f32::MIN);
        let x = [none, none, least, least + 1.0, none, 2.0, f32::NAN, none];
        let mut out = [9.0; 8];
        softmax(&x, 2, &mut out, &team).unwrap();
        assert_eq!(out[..6], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert!(out[6].is_nan());
        assert!(softmax(&x, 3, &mut out, &team).is_err());
        assert!(softmax(&x, 0, &mut out, &team).is_err());
        softmax(&[], 4, &mut [], &team).unwrap();
    }
}
