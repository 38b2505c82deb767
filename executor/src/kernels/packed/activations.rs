//! Activations quantised to two planes of signed bytes.

use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::{Isa, KernelError, Team, check_len};
use super::layout::{BLOCK, GROUP};
use tallow_format::Encoding;

/// The largest code, 256 · 127: its high plane is 127. A block's sum of products is at most 32 · 128 · 32512 < 2³¹.
const MOST: f32 = 32_512.0;

/// Magnitudes below this quantise to zero.
const LEAST: f32 = 1e-30;

/// Rows from which on tiles are faster than vectors.
const TILES_FROM: usize = 6;

/// Rows that tile kernels read at once: memory is kept for whole multiples.
const TILE: usize = 16;

/// Rows of activations as 16-bit codes: a value is `code × scale` with the scale `max|x| / 32512` of its group of 256,
/// rounded to nearest, ties to even. `code = 256 · high + low` with two signed bytes. A group that holds a NaN or an
/// infinity gets a NaN scale, so that it shows in the product.
#[derive(Debug, Default)]
pub struct Quantized {
    m: usize,
    k: usize,
    /// Whether the codes lie in tiles.
    tiled: bool,
    /// `[m, k]` each, unless tiled.
    high: Vec<i8>,
    low: Vec<i8>,
    /// For tile kernels: of 16 rows, by block of 32 columns, `[plane, row, column]`.
    tiles: Vec<i8>,
    /// `[m, groups]`.
    scales: Vec<f32>,
    /// Sums of the codes of half blocks of 16, `[m, k / 16]`.
    halves: Vec<i32>,
    /// Sums of the codes of blocks, `[m, k / 32]`.
    sums: Vec<i32>,
}

/// One row of [`Quantized`].
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) high: &'a [i8],
    pub(super) low: &'a [i8],
    pub(super) scales: &'a [f32],
    pub(super) halves: &'a [i32],
    pub(super) sums: &'a [i32],
}

/// Fills rows of a [`Quantized`] from several threads.
pub struct QuantizedRows<'a> {
    k: usize,
    tiled: bool,
    high: Disjoint<'a, i8>,
    low: Disjoint<'a, i8>,
    tiles: Disjoint<'a, i8>,
    scales: Disjoint<'a, f32>,
    halves: Disjoint<'a, i32>,
    sums: Disjoint<'a, i32>,
}

impl Quantized {
    /// Quantises `x` `[m, k]` over the threads of a team.
    ///
    /// # Errors
    /// As [`Quantized::resize`], and [`KernelError::Length`].
    pub fn quantize(&mut self, x: &[f32], m: usize, k: usize, team: &Team) -> Result<(), KernelError> {
        self.quantize_on(Isa::detect(), x, m, k, team)
    }

    /// [`Quantized::quantize`] for products on a given instruction set.
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    pub(super) fn quantize_on(
        &mut self,
        isa: Isa,
        x: &[f32],
        m: usize,
        k: usize,
        team: &Team,
    ) -> Result<(), KernelError> {
        check_len("input of a product", x.len(), m.checked_mul(k))?;
        self.resize_on(isa, m, k)?;
        let rows = self.rows();
        team.run_chunks(m, (8192 / k.max(1)).max(1), |range| {
            for row in range {
                // SAFETY: every row is in one range only.
                unsafe { rows.quantize(row, &x[row * k..(row + 1) * k]) };
            }
        });
        Ok(())
    }

    /// Makes room for `[m, k]`. The content is undefined until every row is filled. Allocates only where it is larger
    /// than ever before.
    ///
    /// # Errors
    /// [`KernelError::RowNotWholeBlocks`] unless `k` is a multiple of 32.
    pub fn resize(&mut self, m: usize, k: usize) -> Result<(), KernelError> {
        self.resize_on(Isa::detect(), m, k)
    }

    /// [`Quantized::resize`] for products on a given instruction set.
    pub(super) fn resize_on(&mut self, isa: Isa, m: usize, k: usize) -> Result<(), KernelError> {
        if !k.is_multiple_of(BLOCK) {
            return Err(KernelError::RowNotWholeBlocks { encoding: Encoding::Q8, k, block: BLOCK });
        }
        let too_large = || KernelError::Length { what: "rows of activations", found: m, expected: usize::MAX };
        let codes = m.checked_next_multiple_of(TILE).and_then(|m| m.checked_mul(k)).ok_or_else(too_large)?;
        (self.m, self.k) = (m, k);
        self.tiled = isa == Isa::Amx && m >= TILES_FROM;
        if self.tiled {
            grow(&mut self.tiles, codes.checked_mul(2).ok_or_else(too_large)?);
        } else {
            grow(&mut self.high, codes);
            grow(&mut self.low, codes);
        }
        grow(&mut self.scales, m * k.div_ceil(GROUP));
        grow(&mut self.halves, m * (k / 16));
        grow(&mut self.sums, m * (k / BLOCK));
        Ok(())
    }

    /// Access to fill the rows.
    pub fn rows(&mut self) -> QuantizedRows<'_> {
        QuantizedRows {
            k: self.k,
            tiled: self.tiled,
            high: Disjoint::new(&mut self.high),
            low: Disjoint::new(&mut self.low),
            tiles: Disjoint::new(&mut self.tiles),
            scales: Disjoint::new(&mut self.scales),
            halves: Disjoint::new(&mut self.halves),
            sums: Disjoint::new(&mut self.sums),
        }
    }

    /// Rows.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Values per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Whether the codes lie in tiles, for [`Quantized::tile`], or in rows, for [`Quantized::row`].
    pub(super) fn tiled(&self) -> bool {
        self.tiled
    }

    /// Row `row`.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let part = |width: usize| row * width..(row + 1) * width;
        Row {
            high: &self.high[part(self.k)],
            low: &self.low[part(self.k)],
            scales: &self.scales[part(self.k.div_ceil(GROUP))],
            halves: &self.halves[part(self.k / 16)],
            sums: &self.sums[part(self.k / BLOCK)],
        }
    }

    /// The codes of 16 rows from `row`, a multiple of 16, on: by block of 32 columns, `[plane, row, column]`. Rows past
    /// the last one hold anything.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn tile(&self, row: usize) -> &[i8] {
        &self.tiles[row * self.k * 2..(row + TILE) * self.k * 2]
    }

    /// The sum of the codes of a block, or half a block; 0 for rows that only fill a tile.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn sum<const HALVES: bool>(&self, row: usize, part: usize) -> i32 {
        let (sums, width) = if HALVES { (&self.halves, self.k / 16) } else { (&self.sums, self.k / BLOCK) };
        if row < self.m { sums[row * width + part] } else { 0 }
    }

    /// The scale of a group; 0 for rows that only fill a tile.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn scale(&self, row: usize, group: usize) -> f32 {
        if row < self.m { self.scales[row * self.k.div_ceil(GROUP) + group] } else { 0.0 }
    }
}

/// Makes a vector at least so long.
fn grow<T: Clone + Default>(values: &mut Vec<T>, len: usize) {
    if values.len() < len {
        values.resize(len, T::default());
    }
}

impl QuantizedRows<'_> {
    /// Quantises one row.
    ///
    /// # Safety
    /// No other thread fills the same row at the same time.
    ///
    /// # Panics
    /// When `x` has not the length of a row, or the row does not exist.
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    pub unsafe fn quantize(&self, row: usize, x: &[f32]) {
        assert_eq!(x.len(), self.k, "a row has the length of the others");
        let part = |width: usize| row * width..(row + 1) * width;
        // SAFETY: the caller's promise.
        let (scales, halves, sums) = unsafe {
            (
                self.scales.part(part(self.k.div_ceil(GROUP))),
                self.halves.part(part(self.k / 16)),
                self.sums.part(part(self.k / BLOCK)),
            )
        };
        let (mut high, mut low) = ([0; GROUP], [0; GROUP]);
        for (g, x) in x.chunks(GROUP).enumerate() {
            let (high, low) = (&mut high[..x.len()], &mut low[..x.len()]);
            let halves = &mut halves[g * (GROUP / 16)..][..x.len() / 16];
            scales[g] = quantize_group(x, high, low, halves);
            let at = g * GROUP;
            if self.tiled {
                for (b, (high, low)) in high.chunks_exact(BLOCK).zip(low.chunks_exact(BLOCK)).enumerate() {
                    // Whole tiles of 16 rows, whose blocks are 2 planes of 16 rows of 32 columns.
                    let block = row / TILE * TILE * self.k * 2 + (at / BLOCK + b) * 2 * TILE * BLOCK;
                    for (plane, codes) in [high, low].into_iter().enumerate() {
                        let place = block + (plane * TILE + row % TILE) * BLOCK;
                        // SAFETY: places of this row alone.
                        unsafe { self.tiles.part(place..place + BLOCK) }.copy_from_slice(codes);
                    }
                }
            } else {
                let place = row * self.k + at..row * self.k + at + x.len();
                // SAFETY: places of this row alone.
                unsafe {
                    self.high.part(place.clone()).copy_from_slice(high);
                    self.low.part(place).copy_from_slice(low);
                }
            }
        }
        for (sum, [a, b]) in sums.iter_mut().zip(halves.as_chunks::<2>().0) {
            *sum = a + b;
        }
    }
}

multiversion! {
    /// Quantises one group; gives its scale.
    fn quantize_group(x: &[f32], high: &mut [i8], low: &mut [i8], halves: &mut [i32]) -> f32 {
        // Bits of magnitudes order as the magnitudes do, infinity and NaN above all.
        let mut bits = [0_u32; 16];
        for x in x.as_chunks::<16>().0 {
            for (bits, x) in bits.iter_mut().zip(x) {
                *bits = (*bits).max(x.to_bits() & 0x7fff_ffff);
            }
        }
        let top = f32::from_bits(bits.into_iter().fold(0, u32::max));
        if !top.is_finite() || top < LEAST {
            high.fill(0);
            low.fill(0);
            halves.fill(0);
            return if top < LEAST { 0.0 } else { f32::NAN };
        }
        let inverse = MOST / top;
        let planes = high.as_chunks_mut::<16>().0.iter_mut().zip(low.as_chunks_mut::<16>().0);
        for ((x, (high, low)), half) in x.as_chunks::<16>().0.iter().zip(planes).zip(halves) {
            let mut codes = [0_i32; 16];
            for (code, x) in codes.iter_mut().zip(x) {
                // Adding 1.5 · 2²³ rounds to an integer, ties to even, in the low bits.
                *code = i32::from((x * inverse + 12_582_912.0).to_bits() as i16);
            }
            for ((high, low), code) in high.iter_mut().zip(low).zip(codes) {
                *low = code as i8;
                *high = ((code - i32::from(code as i8)) >> 8) as i8;
            }
            *half = codes.into_iter().sum();
        }
        top / MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_activations_are_within_half_a_step() {
        let (m, k) = (7, 288);
        let x: Vec<f32> = (0..m * k).map(|i| ((i * 53) % 97) as f32 - 48.0).collect();
        let mut quantized = Quantized::default();
        quantized.quantize_on(Isa::Portable, &x, m, k, &Team::new(2).unwrap()).unwrap();
        for (row, x) in x.chunks(k).enumerate() {
            let parts = quantized.row(row);
            let code = |i: usize| 256 * i32::from(parts.high[i]) + i32::from(parts.low[i]);
            for (i, &x) in x.iter().enumerate() {
                let scale = parts.scales[i / GROUP];
                // Rounding in `f32` adds a little to half a step.
                assert!((code(i) as f32 * scale - x).abs() <= scale * 0.505, "{x} {} {scale}", code(i));
            }
            for (block, sum) in parts.sums.iter().enumerate() {
                let of = |range: std::ops::Range<usize>| range.map(code).sum::<i32>();
                assert_eq!(*sum, of(block * 32..block * 32 + 32));
                assert_eq!(parts.halves[2 * block], of(block * 32..block * 32 + 16));
            }
        }
    }

    #[test]
    fn packed_activations_keep_nan_and_drop_dust() {
        let mut x = [0.0_f32; 1024];
        x[3] = f32::NAN;
        x[260] = f32::NEG_INFINITY;
        x[261] = 1.0;
        x[600] = 1e-38;
        let team = Team::new(1).unwrap();
        let mut quantized = Quantized::default();
        quantized.quantize(&[5.0; 1024], 1, 1024, &team).unwrap();
        quantized.quantize(&x, 1, 1024, &team).unwrap();
        let row = quantized.row(0);
        assert!(row.scales[0].is_nan() && row.scales[1].is_nan());
        assert_eq!(row.scales[2..], [0.0; 2]);
        assert!(row.high.iter().chain(row.low).all(|&code| code == 0));
        assert!(quantized.quantize(&x[..127], 1, 127, &team).is_err());
        assert!(quantized.quantize(&x[..80], 2, 40, &team).is_err());
        assert!(quantized.quantize(&x[..80], 1, 96, &team).is_err());
    }
}
