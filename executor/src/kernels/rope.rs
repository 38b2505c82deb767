//! Rotary embedding with precomputed cosines and sines.

use super::cpu::multiversion;
use super::disjoint::Disjoint;
use super::norm::rms_head;
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
            turn_heads(row, head_dim, None, layout, &cos[angles.clone()], &sin[angles]);
        }
    });
    Ok(())
}

multiversion! {
    /// Normalises (with a gain of the length of a head, and ε) and turns each head of the row of one
    /// token in place, on this thread. `cos` and `sin` are those of the token: one for each pair that
    /// turns, at most half a head; with none, nothing turns.
    pub fn turn_heads(
        row: &mut [f32],
        head_dim: usize,
        norm: Option<(&[f32], f32)>,
        layout: RopeLayout,
        cos: &[f32],
        sin: &[f32],
    ) {
        for head in row.chunks_exact_mut(head_dim.max(1)) {
            if let Some((gain, epsilon)) = norm {
                rms_head(head, gain, epsilon);
            }
            match layout {
                RopeLayout::HalfSplit => half_split(head, cos, sin),
                RopeLayout::Interleaved => interleaved(head, cos, sin),
            }
        }
    }
}

#[inline(always)]
fn half_split(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), &cos), &sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

#[inline(always)]
fn interleaved(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    for (([a, b], &cos), &sin) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// The cosines and sines of consecutive positions, kept from one call to the next: the layers of a
/// step share them.
#[derive(Clone, Debug, Default)]
pub struct RopeTable {
    frequencies: Vec<f32>,
    factor: f32,
    start: i64,
    count: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// Makes room for tables of that many positions and pairs.
    pub fn reserve(&mut self, positions: usize, pairs: usize) {
        let size = positions.saturating_mul(pairs);
        self.frequencies.reserve(pairs.saturating_sub(self.frequencies.len()));
        self.cos.reserve(size.saturating_sub(self.cos.len()));
        self.sin.reserve(size.saturating_sub(self.sin.len()));
    }

    /// Computes the table of the positions `start..start + count`, unless it is that one already. The
    /// angle of a position and a pair is their product, and `factor` multiplies both results.
    pub fn prepare(&mut self, frequencies: &[f32], factor: f32, start: i64, count: usize) {
        let same = self.start == start && self.count == count && self.factor == factor;
        if same && self.frequencies == frequencies {
            return;
        }
        (self.factor, self.start, self.count) = (factor, start, count);
        self.frequencies.clear();
        self.frequencies.extend_from_slice(frequencies);
        self.cos.clear();
        self.sin.clear();
        for index in 0..count {
            let position = start.saturating_add(index as i64) as f32;
            for frequency in frequencies {
                let (sin, cos) = (position * frequency).sin_cos();
                self.cos.push(cos * factor);
                self.sin.push(sin * factor);
            }
        }
    }

    /// The cosines and sines of the token `index`, one for each pair.
    ///
    /// # Panics
    /// Where there are fewer positions.
    pub fn token(&self, index: usize) -> (&[f32], &[f32]) {
        let pairs = self.frequencies.len();
        let range = index * pairs..(index + 1) * pairs;
        (&self.cos[range.clone()], &self.sin[range])
    }

    /// All cosines and sines, `[positions, pairs]`.
    pub fn all(&self) -> (&[f32], &[f32]) {
        (&self.cos, &self.sin)
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

    #[test]
    fn kernels_rope_normalises_heads_first() {
        let (heads, dim) = (3, 20);
        let x: Vec<f32> = (0..heads * dim).map(|i| (i % 13) as f32 - 6.0).collect();
        let gain: Vec<f32> = (0..dim).map(|i| 1.0 + i as f32 / 40.0).collect();
        let mut table = RopeTable::default();
        table.prepare(&[1.0, 0.3, 0.01, 0.001], 1.5, 9, 3);
        let team = Team::new(1).unwrap();
        for layout in [RopeLayout::HalfSplit, RopeLayout::Interleaved] {
            let (cos, sin) = table.token(2);
            let mut row = x.clone();
            turn_heads(&mut row, dim, Some((&gain, 1e-6)), layout, cos, sin);
            let mut want = vec![0.0; x.len()];
            super::super::rms_norm(&x, &gain, 1e-6, &mut want, &team).unwrap();
            rope(&mut want, heads, dim, 8, layout, cos, sin, &team).unwrap();
            assert_eq!(row, want);
        }
    }

    #[test]
    fn kernels_rope_tables_are_computed_again_for_other_positions_only() {
        let mut table = RopeTable::default();
        table.reserve(4, 2);
        table.prepare(&[1.0, 0.5], 2.0, 3, 2);
        assert_eq!(
            table.token(1),
            (&[4.0_f32.cos() * 2.0, 2.0_f32.cos() * 2.0][..], &[4.0_f32.sin() * 2.0, 2.0_f32.sin() * 2.0][..])
        );
        table.cos[0] = 7.0;
        table.prepare(&[1.0, 0.5], 2.0, 3, 2);
        assert_eq!(table.token(0).0[0], 7.0);
        for (frequencies, factor, start, count) in
            [([1.0, 0.5], 2.0, 4, 2), ([1.0, 0.25], 2.0, 4, 2), ([1.0, 0.25], 1.0, 4, 3)]
        {
            table.prepare(&frequencies, factor, start, count);
            assert_eq!(table.all().0.len(), 2 * count);
            assert_eq!(table.token(0).0[1], (start as f32 * frequencies[1]).cos() * factor);
        }
    }
}
