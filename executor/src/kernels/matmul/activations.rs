//! Activations quantised to 8 bits.

use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::{KernelError, Team, check_len};
use super::groups::{BLOCK, BLOCKS, GROUP, HALVES};
use tallow_format::Encoding;

/// Rows of activations from which the kernel that unpacks weights once for many of them pays.
pub(super) const MANY: usize = 6;

/// Magnitudes below this quantise to zero.
const LEAST: f32 = 1e-30;

/// Rows of activations, each block of 32 as signed bytes under one `f32` scale: a value is
/// `code × scale` with the scale `max|x| / 127`, rounded to nearest, ties to even. A block that
/// holds a NaN or an infinity gets a NaN scale, so that it shows in the product.
///
/// Rows are padded with zeros to whole groups of 256. Within a group the codes lie so that a
/// 32-byte vector has the same half of blocks `j` and `j + 4` in its two 16-byte lanes, which
/// lets vector kernels sum blocks without crossing lanes.
#[derive(Debug, Default)]
pub struct Activations {
    m: usize,
    k: usize,
    groups: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
    /// Sum of the codes of each half block of 16, for encodings with minimums and offsets.
    sums: Vec<i16>,
    /// The codes again in 16 bits and in their natural order, when there are [`MANY`] rows or more.
    wide: Vec<i16>,
}

/// Where the 16 codes of half `half` (0 or 1) of block `j` (0 to 7) of a group begin.
#[inline(always)]
pub(super) const fn place(j: usize, half: usize) -> usize {
    j % 4 * 64 + half * 32 + j / 4 * 16
}

/// One row of [`Activations`].
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) codes: &'a [[i8; GROUP]],
    pub(super) scales: &'a [[f32; BLOCKS]],
    pub(super) sums: &'a [[i16; HALVES]],
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
        self.wide.clear();
        if m >= MANY {
            self.wide.resize(m * groups * GROUP, 0);
        }
        let many = m >= MANY;
        let codes = Disjoint::new(&mut self.codes);
        let scales = Disjoint::new(&mut self.scales);
        let sums = Disjoint::new(&mut self.sums);
        let wide = Disjoint::new(&mut self.wide);
        team.run_chunks(m, (8192 / k.max(1)).max(1), |range| {
            for row in range {
                let part = |len: usize| row * groups * len..(row + 1) * groups * len;
                // SAFETY: every row is in one range only.
                let (codes, scales, sums) =
                    unsafe { (codes.part(part(GROUP)), scales.part(part(BLOCKS)), sums.part(part(HALVES))) };
                let wide = if many {
                    // SAFETY: as above.
                    unsafe { wide.part(part(GROUP)) }
                } else {
                    &mut []
                };
                quantize_row(&x[row * k..(row + 1) * k], codes, scales, sums, wide);
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
            sums: &self.sums.as_chunks().0[part],
        }
    }

    /// The codes of row `row` in 16 bits; empty when there are fewer than [`MANY`] rows.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn wide_row(&self, row: usize) -> &[[i16; GROUP]] {
        self.wide.as_chunks().0.get(row * self.groups..(row + 1) * self.groups).unwrap_or_default()
    }
}

multiversion! {
    fn quantize_row(
        x: &[f32],
        codes: &mut [i8],
        scales: &mut [f32],
        sums: &mut [i16],
        wide: &mut [i16],
    ) {
        let blocks = x.as_chunks::<BLOCK>().0;
        let codes = codes.as_chunks_mut::<GROUP>().0;
        let sums = sums.as_chunks_mut::<2>().0;
        let wide = wide.as_chunks_mut::<BLOCK>().0;
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
            scales[index] = top / 127.0;
            let inverse = 127.0 / top;
            let mut block = [0_i8; BLOCK];
            for (code, x) in block.iter_mut().zip(x) {
                // Adding 1.5 · 2²³ rounds to an integer, ties to even, in the low bits.
                *code = (x * inverse + 12_582_912.0).to_bits() as i8;
            }
            let group = &mut codes[index / BLOCKS];
            for (half, part) in block.as_chunks::<16>().0.iter().enumerate() {
                let at = place(index % BLOCKS, half);
                group[at..at + 16].copy_from_slice(part);
                let mut sum = 0_i16;
                for &code in part {
                    sum += i16::from(code);
                }
                sums[index][half] = sum;
            }
            if let Some(wide) = wide.get_mut(index) {
                for (wide, &code) in wide.iter_mut().zip(&block) {
                    *wide = code.into();
                }
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
                let code = parts.codes[0][place(i / 32, i % 32 / 16) + i % 16];
                let scale = parts.scales[0][i / 32];
                assert!((f32::from(code) * scale - x).abs() <= scale * 0.5001);
                assert_eq!(quantized.wide_row(row)[0][i], i16::from(code));
            }
            for half in 0..HALVES {
                let at = place(half / 2, half % 2);
                let codes = &parts.codes[0][at..at + 16];
                let want: i16 = codes.iter().map(|&code| i16::from(code)).sum();
                assert_eq!(parts.sums[0][half], want);
            }
            for half in k / 16..HALVES {
                let at = place(half / 2, half % 2);
                assert_eq!(parts.codes[0][at..at + 16], [0; 16]);
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
