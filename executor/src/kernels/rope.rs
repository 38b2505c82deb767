//! Rotary embedding with precomputed cosines and sines.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::{KernelError, Team, check_len};

/// Which elements of a head form the pairs that turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeLayout {
    /// Pairs `(j, j + rotary/2)`.
    HalfSplit,
    /// Pairs `(2j, 2j + 1)`.
    Interleaved,
}

/// Turns the first `rotary` elements of every head of `x` `[tokens, heads, head_dim]` in place;
/// the rest of a head stays. `cos` and `sin` are `[tokens, rotary/2]`. A whole head turns with
/// `rotary = head_dim`, a contiguous prefix with less.
///
/// # Errors
/// [`KernelError::Attribute`] unless `rotary` is even and at most `head_dim`;
/// [`KernelError::Length`].
#[allow(clippy::too_many_arguments)]
#[allow(unsafe_code, reason = "threads write disjoint tokens")]
pub fn rope(
    x: &mut [f32],
    heads: usize,
    head_dim: usize,
    rotary: usize,
    layout: RopeLayout,
    cos: &[f32],
    sin: &[f32],
    team: &Team,
) -> Result<(), KernelError> {
    if !rotary.is_multiple_of(2) || rotary > head_dim {
        return Err(KernelError::Attribute {
            what: "the rotary dimension",
            value: rotary.to_string(),
            expected: "even and at most the head dimension",
        });
    }
    let pairs = rotary / 2;
    let width = heads.saturating_mul(head_dim);
    let tokens = x.len().checked_div(width).unwrap_or(0);
    check_len("input of rope", x.len(), tokens.checked_mul(width))?;
    check_len("table of cosines", cos.len(), Some(tokens * pairs))?;
    check_len("table of sines", sin.len(), Some(tokens * pairs))?;
    if pairs == 0 {
        return Ok(());
    }
    let x = Disjoint::new(x);
    team.run_chunks(tokens, (8192 / width.max(1)).max(1), |range| {
        for token in range {
            // SAFETY: every token is in one range only.
            let row = unsafe { x.part(token * width..(token + 1) * width) };
            let angles = token * pairs..(token + 1) * pairs;
            let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
            row.chunks_exact_mut(head_dim).for_each(|head| turn(head, layout, cos, sin));
        }
    });
    Ok(())
}

/// Turns the beginning of one head, as many pairs as there are cosines and sines.
pub(crate) fn turn(head: &mut [f32], layout: RopeLayout, cos: &[f32], sin: &[f32]) {
    let head = &mut head[..2 * cos.len()];
    match layout {
        RopeLayout::HalfSplit => half_split(head, cos, sin),
        RopeLayout::Interleaved => interleaved(head, cos, sin),
    }
}

multiversion! {
    fn half_split(head: &mut [f32], cos: &[f32], sin: &[f32]) {
        let (first, second) = head.split_at_mut(cos.len());
        for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

multiversion! {
    fn interleaved(head: &mut [f32], cos: &[f32], sin: &[f32]) {
        for (([a, b], &cos), &sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_rope_turns_pairs() {
        let (tokens, heads, head_dim) = (5, 3, 12);
        let x: Vec<f32> = (0..tokens * heads * head_dim).map(|i| (i % 31) as f32 - 15.0).collect();
        for rotary in [0, 2, 8, 12] {
            let pairs = rotary / 2;
            let angles: Vec<f32> = (0..tokens * pairs).map(|i| i as f32 * 0.37).collect();
            let cos: Vec<f32> = angles.iter().map(|a| a.cos()).collect();
            let sin: Vec<f32> = angles.iter().map(|a| a.sin()).collect();
            for layout in [RopeLayout::HalfSplit, RopeLayout::Interleaved] {
                for threads in [1, 2] {
                    let team = Team::new(threads).unwrap();
                    let mut y = x.clone();
                    rope(&mut y, heads, head_dim, rotary, layout, &cos, &sin, &team).unwrap();
                    for (row, (x, y)) in x.chunks(head_dim).zip(y.chunks(head_dim)).enumerate() {
                        let mut want = x.to_vec();
                        for j in 0..pairs {
                            let (a, b) = match layout {
                                RopeLayout::HalfSplit => (j, j + pairs),
                                RopeLayout::Interleaved => (2 * j, 2 * j + 1),
                            };
                            let at = row / heads * pairs + j;
                            want[a] = x[a] * cos[at] - x[b] * sin[at];
                            want[b] = x[b] * cos[at] + x[a] * sin[at];
                        }
                        assert_eq!(y, want);
                    }
                }
            }
        }
    }

    #[test]
    fn kernels_rope_refuses_odd_and_long_rotations() {
        let team = Team::new(1).unwrap();
        let layout = RopeLayout::HalfSplit;
        let mut x = [0.0; 8];
        assert!(rope(&mut x, 1, 4, 3, layout, &[0.0; 2], &[0.0; 2], &team).is_err());
        assert!(rope(&mut x, 1, 4, 6, layout, &[0.0; 6], &[0.0; 6], &team).is_err());
        assert!(rope(&mut x, 1, 4, 4, layout, &[0.0; 3], &[0.0; 4], &team).is_err());
        assert!(rope(&mut x, 3, 4, 4, layout, &[0.0; 4], &[0.0; 4], &team).is_err());
    }
}
