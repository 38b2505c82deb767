//! Activations quantised to 16-bit codes.

use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::{KernelError, Team, check_len};
use super::groups::{BLOCK, BLOCKS, GROUP, HALVES};
use tallow_format::Encoding;

/// The largest code. The largest sum of a block, 32 products of a value of −32, a multiplier of
/// −128 (both of `q6k`) and such a code, is 2³¹ − 2¹⁷, so sums of blocks are exact in 32 bits.
const MOST: f32 = 16_383.0;

/// Magnitudes below this quantise to zero.
const LEAST: f32 = 1e-30;

/// Rows of activations, each block of 32 as 16-bit codes under one `f32` scale: a value is
/// `code × scale` with the scale `max|x| / 16383`, rounded to nearest, ties to even. A block that
/// holds a NaN or an infinity gets a NaN scale, so that it shows in the product.
///
/// Rows are padded with zeros to whole groups of 256. Within a group the codes lie as [`place`]
/// says, which suits vector kernels: a 32-byte vector has values of blocks `j` and `j + 4` in its
/// two 16-byte lanes, so that blocks are summed without crossing lanes, and of the 16 values of
/// a half block those at even places, or those at odd ones, so that bytes of weights are widened
/// by masking or shifting pairs of them.
#[derive(Debug, Default)]
pub struct Activations {
    m: usize,
    k: usize,
    groups: usize,
    codes: Vec<i16>,
    scales: Vec<f32>,
    /// Sums of the codes of half blocks of 16, for encodings with minimums and offsets: per group,
    /// those of the first halves of its blocks, then those of the second halves.
    sums: Vec<i32>,
}

/// Where the code of value `i` (0 to 31) of block `j` (0 to 7) of a group lies.
#[inline(always)]
pub(super) const fn place(j: usize, i: usize) -> usize {
    j % 4 * 64 + i / 16 * 32 + i % 2 * ODD + j / 4 * 8 + i % 16 / 2
}

/// From the code of a value at an even place to that of the next value.
pub(super) const ODD: usize = 16;

/// One row of [`Activations`].
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// In the order of [`place`].
    pub(super) codes: &'a [[i16; GROUP]],
    pub(super) scales: &'a [[f32; BLOCKS]],
    /// `[group][half][block]`.
    pub(super) sums: &'a [[[i32; BLOCKS]; 2]],
}

/// One group of a [`Row`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// In the order of [`place`].
    pub(super) codes: &'a [i16; GROUP],
    pub(super) scales: &'a [f32; BLOCKS],
    /// `[half][block]`.
    pub(super) sums: &'a [[i32; BLOCKS]; 2],
}

#[cfg(target_arch = "x86_64")]
impl<'a> Row<'a> {
    /// Group `g`, found once, so that the loops over it are free of checks.
    #[inline(always)]
    pub(super) fn part(&self, g: usize) -> Part<'a> {
        Part { codes: &self.codes[g], scales: &self.scales[g], sums: &self.sums[g] }
    }
}

impl Activations {
    /// Quantises `x` `[m, k]`.
    ///
    /// # Errors
    /// As [`Activations::requantize`].
    pub fn quantize(x: &[f32], m: usize, k: usize, team: &Team) -> Result<Self, KernelError> {
        let mut activations = Self::default();
        activations.requantize(x, m, k, team)?;
        Ok(activations)
    }

    /// Replaces the content by the quantised `x` `[m, k]`, reusing the memory.
    ///
    /// # Errors
    /// [`KernelError::Length`], and [`KernelError::RowNotWholeBlocks`] unless `k` is a multiple
    /// of 32.
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    pub fn requantize(&mut self, x: &[f32], m: usize, k: usize, team: &Team) -> Result<(), KernelError> {
        check_len("input of a product", x.len(), m.checked_mul(k))?;
        if !k.is_multiple_of(BLOCK) {
            return Err(KernelError::RowNotWholeBlocks { encoding: Encoding::Q8, k, block: BLOCK });
        }
        let groups = k.div_ceil(GROUP);
        (self.m, self.k, self.groups) = (m, k, groups);
        // The padding is written only by `resize`, and rows may move: so all is cleared.
        self.codes.clear();
        self.codes.resize(m * groups * GROUP, 0);
        self.scales.clear();
        self.scales.resize(m * groups * BLOCKS, 0.0);
        self.sums.clear();
        self.sums.resize(m * groups * HALVES, 0);
        let codes = Disjoint::new(&mut self.codes);
        let scales = Disjoint::new(&mut self.scales);
        let sums = Disjoint::new(&mut self.sums);
        team.run_chunks(m, (8192 / k.max(1)).max(1), |range| {
            for row in range {
                let part = |len: usize| row * groups * len..(row + 1) * groups * len;
                // SAFETY: every row is in one range only.
                let (codes, scales, sums) =
                    unsafe { (codes.part(part(GROUP)), scales.part(part(BLOCKS)), sums.part(part(HALVES))) };
                quantize_row(&x[row * k..(row + 1) * k], codes, scales, sums);
            }
        });
        Ok(())
    }

    /// Rows.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Values per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Row `row`.
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let part = row * self.groups..(row + 1) * self.groups;
        Row {
            codes: &self.codes.as_chunks().0[part.clone()],
            scales: &self.scales.as_chunks().0[part.clone()],
            sums: &self.sums.as_chunks().0.as_chunks().0[part],
        }
    }
}

multiversion! {
    fn quantize_row(x: &[f32], codes: &mut [i16], scales: &mut [f32], sums: &mut [i32]) {
        let blocks = x.as_chunks::<BLOCK>().0;
        let codes = codes.as_chunks_mut::<GROUP>().0;
        let sums = sums.as_chunks_mut::<HALVES>().0;
        for (index, x) in blocks.iter().enumerate() {
            // Bits of magnitudes order as the magnitudes do, infinity and NaN above all.
            let mut bits = 0_u32;
            for x in x {
                bits = bits.max(x.to_bits() & 0x7fff_ffff);
            }
            let top = f32::from_bits(bits);
            if !top.is_finite() || top < LEAST {
                scales[index] = if top < LEAST { 0.0 } else { f32::NAN };
                continue;
            }
            scales[index] = top / MOST;
            let inverse = MOST / top;
            let mut block = [0_i16; BLOCK];
            for (code, x) in block.iter_mut().zip(x) {
                // Adding 1.5 · 2²³ rounds to an integer, ties to even, in the low bits.
                *code = (x * inverse + 12_582_912.0).to_bits() as i16;
            }
            let (g, j) = (index / BLOCKS, index % BLOCKS);
            for (half, part) in block.as_chunks::<16>().0.iter().enumerate() {
                let at = place(j, half * 16);
                let mut sum = 0_i32;
                for (i, &[even, odd]) in part.as_chunks::<2>().0.iter().enumerate() {
                    codes[g][at + i] = even;
                    codes[g][at + ODD + i] = odd;
                    sum += i32::from(even) + i32::from(odd);
                }
                sums[g][half * BLOCKS + j] = sum;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_activations_are_within_half_a_step() {
        let (m, k) = (7, 96);
        let x: Vec<f32> = (0..m * k).map(|i| ((i * 53) % 97) as f32 - 48.0).collect();
        let quantized = Activations::quantize(&x, m, k, &Team::new(2).unwrap()).unwrap();
        for (row, x) in x.chunks(k).enumerate() {
            let parts = quantized.row(row);
            for (i, &x) in x.iter().enumerate() {
                let code = parts.codes[0][place(i / 32, i % 32)];
                let scale = parts.scales[0][i / 32];
                // Rounding in `f32` adds a little to half a step.
                assert!((f32::from(code) * scale - x).abs() <= scale * 0.503, "{x} {code} {scale}");
            }
            let mut seen = [false; GROUP];
            for j in 0..BLOCKS {
                for half in 0..2 {
                    let places = (half * 16..half * 16 + 16).map(|i| place(j, i));
                    let want: i32 = places.clone().map(|at| i32::from(parts.codes[0][at])).sum();
                    assert_eq!(parts.sums[0][half][j], want);
                    for at in places {
                        assert!(!seen[at]);
                        seen[at] = true;
                        assert!(j * 32 < k || parts.codes[0][at] == 0);
                    }
                }
            }
        }
    }

    #[test]
    fn kernels_activations_keep_nan_and_drop_dust() {
        let mut x = [0.0_f32; 128];
        x[3] = f32::NAN;
        x[40] = f32::NEG_INFINITY;
        x[70] = 1e-38;
        let team = Team::new(1).unwrap();
        let mut quantized = Activations::quantize(&[5.0; 256], 1, 256, &team).unwrap();
        quantized.requantize(&x, 1, 128, &team).unwrap();
        let row = quantized.row(0);
        assert!(row.scales[0][0].is_nan() && row.scales[0][1].is_nan());
        assert_eq!(row.scales[0][2..], [0.0; 6]);
        assert_eq!(row.codes[0], [0; GROUP]);
        assert!(quantized.requantize(&x, 1, 127, &team).is_err());
        assert!(quantized.requantize(&x[..80], 2, 40, &team).is_err());
    }
}
