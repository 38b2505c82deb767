//! Activations quantised to 12-bit codes, as two planes of signed bytes.

use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::room::grow;
use super::super::{Isa, KernelError, Team, check_len};
use super::layout::BLOCK;
use tallow_format::Encoding;

/// The largest code, 16 · 127: its high byte is 127.
const MOST: f32 = 2032.0;

/// Magnitudes below this quantise to zero.
const LEAST: f32 = 1e-30;

/// Rows of a tile: memory is kept for whole multiples.
pub(super) const TILE: usize = 16;

/// Columns of half a block.
const HALF: usize = BLOCK / 2;

/// The codes of a block: of each half, 16 high bytes and 16 low ones. One line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Codes(pub(super) [i8; 2 * BLOCK]);

impl Default for Codes {
    fn default() -> Self {
        Self([0; 2 * BLOCK])
    }
}

/// Rows of activations as 12-bit codes: a value is `code × scale` with the scale `max|x| / 2032` of its block of 32,
/// rounded to nearest, ties to even. `code = 16 · high + low` with signed bytes, the low one from −8 to 7. A block that
/// holds a NaN or an infinity gets a NaN scale, so that it shows in the product.
#[derive(Debug, Default)]
pub struct Quantized {
    m: usize,
    k: usize,
    /// Whether the rows lie in tiles: of 16 rows, block by block.
    tiled: bool,
    /// `[m, k / 32]`, in tiles `[m / 16, k / 32, 16]`.
    codes: Vec<Codes>,
    /// In the same order.
    scales: Vec<f32>,
    /// Sums of the codes of halves of a block, in the same order.
    sums: Vec<[i32; 2]>,
    /// Sums of their low bytes in the same way; in tiles none.
    lows: Vec<[i32; 2]>,
    /// In tiles, for encodings with minimums, `[m / 16, k / 32, 16]`.
    weights: Vec<Weights>,
}

/// Sums of the codes of a block times its scale: of the first half, the second one, and the whole.
pub(super) type Weights = [f32; 4];

/// One row of a [`Quantized`] that is not in tiles, by block.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) codes: &'a [Codes],
    pub(super) scales: &'a [f32],
    pub(super) sums: &'a [[i32; 2]],
    pub(super) lows: &'a [[i32; 2]],
}

/// Sixteen rows of a [`Quantized`] in tiles, by block. Rows past the last one hold anything finite.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) codes: &'a [[Codes; TILE]],
    pub(super) scales: &'a [[f32; TILE]],
    pub(super) sums: &'a [[[i32; 2]; TILE]],
    pub(super) weights: &'a [[Weights; TILE]],
}

/// Fills rows of a [`Quantized`] from several threads.
pub struct QuantizedRows<'a> {
    k: usize,
    tiled: bool,
    codes: Disjoint<'a, Codes>,
    scales: Disjoint<'a, f32>,
    sums: Disjoint<'a, [i32; 2]>,
    lows: Disjoint<'a, [i32; 2]>,
    weights: Disjoint<'a, Weights>,
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

    /// [`Quantized::resize`] for rows that lie one after the other, to be copied from.
    ///
    /// # Errors
    /// As [`Quantized::resize`].
    pub(in crate::kernels) fn resize_in_rows(&mut self, m: usize, k: usize) -> Result<(), KernelError> {
        self.resize_on(Isa::Portable, m, k)
    }

    /// [`Quantized::resize`] for products on a given instruction set.
    pub(super) fn resize_on(&mut self, isa: Isa, m: usize, k: usize) -> Result<(), KernelError> {
        if !k.is_multiple_of(BLOCK) {
            return Err(KernelError::RowNotWholeBlocks { encoding: Encoding::Q8, k, block: BLOCK });
        }
        let too_large = || KernelError::Length { what: "rows of activations", found: m, expected: usize::MAX };
        let rows = m.checked_next_multiple_of(TILE).ok_or_else(too_large)?;
        let blocks =
            rows.checked_mul(k / BLOCK).filter(|b| b.checked_mul(2 * BLOCK).is_some()).ok_or_else(too_large)?;
        (self.m, self.k) = (m, k);
        self.tiled = isa >= Isa::Avx512 && m > 1;
        grow(&mut self.codes, blocks, Codes::default());
        grow(&mut self.scales, blocks, 0.0);
        grow(&mut self.sums, blocks, [0; 2]);
        if self.tiled {
            grow(&mut self.weights, blocks, Weights::default());
        } else {
            grow(&mut self.lows, blocks, [0; 2]);
        }
        Ok(())
    }

    /// Access to fill the rows.
    pub fn rows(&mut self) -> QuantizedRows<'_> {
        QuantizedRows {
            k: self.k,
            tiled: self.tiled,
            codes: Disjoint::new(&mut self.codes),
            scales: Disjoint::new(&mut self.scales),
            sums: Disjoint::new(&mut self.sums),
            lows: Disjoint::new(&mut self.lows),
            weights: Disjoint::new(&mut self.weights),
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

    /// Whether the rows lie in tiles, for [`Quantized::tile`], or one after the other, for [`Quantized::row`].
    pub(super) fn tiled(&self) -> bool {
        self.tiled
    }

    /// Row `row`.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let blocks = self.k / BLOCK;
        let part = row * blocks..(row + 1) * blocks;
        Row {
            codes: &self.codes[part.clone()],
            scales: &self.scales[part.clone()],
            sums: &self.sums[part.clone()],
            lows: &self.lows[part],
        }
    }

    /// The 16 rows from `row` on, a multiple of 16.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn tile(&self, row: usize) -> Tile<'_> {
        let blocks = self.k / BLOCK;
        let part = row * blocks..(row + TILE) * blocks;
        Tile {
            codes: self.codes[part.clone()].as_chunks().0,
            scales: self.scales[part.clone()].as_chunks().0,
            sums: self.sums[part.clone()].as_chunks().0,
            weights: self.weights[part].as_chunks().0,
        }
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
        // Blocks at a time.
        const SOME: usize = 8;
        let mut made = [Block { codes: Codes::default(), scale: 0.0, sums: [0; 2], lows: [0; 2] }; SOME];
        for (first, x) in x.as_chunks().0.chunks(SOME).enumerate().map(|(i, x)| (i * SOME, x)) {
            let made = &mut made[..x.len()];
            quantize_blocks(x, made);
            for (b, block) in (first..).zip(made) {
                // SAFETY: the caller's promise.
                unsafe { self.put(row, b, block) };
            }
        }
    }

    /// Copies a row that has been quantised.
    ///
    /// # Safety
    /// As [`QuantizedRows::quantize`].
    ///
    /// # Panics
    /// When `from` has not the length of a row, lies in tiles, or either row does not exist.
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    pub(in crate::kernels) unsafe fn copy(&self, row: usize, from: &Quantized, of: usize) {
        assert!(from.k == self.k && !from.tiled, "rows are copied from rows of one length");
        let Row { codes, scales, sums, lows } = from.row(of);
        for (b, codes) in codes.iter().enumerate() {
            let block = Block { codes: *codes, scale: scales[b], sums: sums[b], lows: lows[b] };
            // SAFETY: the caller's promise.
            unsafe { self.put(row, b, &block) };
        }
    }

    /// Writes block `b` of a row.
    ///
    /// # Safety
    /// As [`QuantizedRows::quantize`].
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    #[inline(always)]
    unsafe fn put(&self, row: usize, b: usize, block: &Block) {
        let blocks = self.k / BLOCK;
        let place = match self.tiled {
            true => (row / TILE * blocks + b) * TILE + row % TILE,
            false => row * blocks + b,
        };
        // SAFETY: places of this row alone, by the caller's promise.
        unsafe {
            self.codes.part(place..place + 1)[0] = block.codes;
            self.scales.part(place..place + 1)[0] = block.scale;
            self.sums.part(place..place + 1)[0] = block.sums;
            if self.tiled {
                let [one, two] = block.sums;
                let sums = [one, two, one + two, 0];
                self.weights.part(place..place + 1)[0] = sums.map(|sum| sum as f32 * block.scale);
            } else {
                self.lows.part(place..place + 1)[0] = block.lows;
            }
        }
    }
}

/// A quantised block.
#[derive(Clone, Copy)]
struct Block {
    codes: Codes,
    scale: f32,
    sums: [i32; 2],
    lows: [i32; 2],
}

/// Quantises blocks.
fn quantize_blocks(x: &[[f32; BLOCK]], blocks: &mut [Block]) {
    #[cfg(target_arch = "x86_64")]
    if Isa::detect() >= Isa::Avx512 {
        // SAFETY: the features were found on this machine.
        #[allow(unsafe_code, reason = "a call into a function compiled for a found instruction set")]
        return unsafe { avx512::quantize_blocks(x, blocks) };
    }
    quantize_blocks_any(x, blocks);
}

multiversion! {
    /// [`quantize_blocks`] for any instruction set.
    fn quantize_blocks_any(x: &[[f32; BLOCK]], blocks: &mut [Block]) {
        for (x, block) in x.iter().zip(blocks) {
            // Bits of magnitudes order as the magnitudes do, infinity and NaN above all.
            let mut bits = [0_u32; HALF];
            for x in x.as_chunks::<HALF>().0 {
                for (bits, x) in bits.iter_mut().zip(x) {
                    *bits = (*bits).max(x.to_bits() & 0x7fff_ffff);
                }
            }
            let top = f32::from_bits(bits.into_iter().fold(0, u32::max));
            if !top.is_finite() || top < LEAST {
                let scale = if top < LEAST { 0.0 } else { f32::NAN };
                *block = Block { codes: Codes::default(), scale, sums: [0; 2], lows: [0; 2] };
                continue;
            }
            block.scale = top / MOST;
            let inverse = MOST / top;
            for (half, x) in x.as_chunks::<HALF>().0.iter().enumerate() {
                let (mut codes, mut lows) = ([0_i32; HALF], [0_i32; HALF]);
                for (code, x) in codes.iter_mut().zip(x) {
                    // Adding 1.5 · 2²³ rounds to an integer, ties to even, in the low bits.
                    *code = i32::from((x * inverse + 12_582_912.0).to_bits() as i16);
                }
                let (high_codes, low_codes) = block.codes.0[half * BLOCK..][..BLOCK].split_at_mut(HALF);
                for i in 0..HALF {
                    let high = (codes[i] + 8) >> 4;
                    lows[i] = codes[i] - (high << 4);
                    high_codes[i] = high as i8;
                    low_codes[i] = lows[i] as i8;
                }
                block.sums[half] = codes.into_iter().sum();
                block.lows[half] = lows.into_iter().sum();
            }
        }
    }
}

/// By vectors of half a block.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores take pointers")]
mod avx512 {
    use super::{BLOCK, Block, Codes, HALF, LEAST, MOST};
    use std::arch::x86_64::*;

    /// As [`super::quantize_blocks`].
    ///
    /// # Safety
    /// The machine has the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    pub(super) unsafe fn quantize_blocks(x: &[[f32; BLOCK]], blocks: &mut [Block]) {
        let magnitude = _mm512_set1_epi32(0x7fff_ffff);
        for (x, block) in x.iter().zip(blocks) {
            // SAFETY: two halves of sixteen numbers.
            let x = unsafe { [_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(HALF))] };
            let bits = x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), magnitude));
            // Bits of magnitudes order as the magnitudes do, infinity and NaN above all.
            let top = f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(bits[0], bits[1])));
            if !top.is_finite() || top < LEAST {
                let scale = if top < LEAST { 0.0 } else { f32::NAN };
                *block = Block { codes: Codes::default(), scale, sums: [0; 2], lows: [0; 2] };
                continue;
            }
            block.scale = top / MOST;
            let inverse = _mm512_set1_ps(MOST / top);
            for (half, x) in x.into_iter().enumerate() {
                const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
                let codes = _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_mul_ps(x, inverse));
                let high = _mm512_srai_epi32::<4>(_mm512_add_epi32(codes, _mm512_set1_epi32(8)));
                let low = _mm512_sub_epi32(codes, _mm512_slli_epi32::<4>(high));
                // SAFETY: sixteen bytes each.
                unsafe {
                    let to = block.codes.0.as_mut_ptr().add(half * BLOCK);
                    _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(high));
                    _mm_storeu_si128(to.add(HALF).cast(), _mm512_cvtepi32_epi8(low));
                }
                block.sums[half] = _mm512_reduce_add_epi32(codes);
                block.lows[half] = _mm512_reduce_add_epi32(low);
            }
        }
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
            let codes: Vec<i8> = parts.codes.iter().flat_map(|codes| codes.0).collect();
            let at = |i: usize| i / HALF * BLOCK + i % HALF;
            let low = |i: usize| i32::from(codes[at(i) + HALF]);
            let code = |i: usize| 16 * i32::from(codes[at(i)]) + low(i);
            for (i, &x) in x.iter().enumerate() {
                let scale = parts.scales[i / BLOCK];
                // Rounding in `f32` adds a little to half a step.
                assert!((code(i) as f32 * scale - x).abs() <= scale * 0.505, "{x} {} {scale}", code(i));
            }
            for (half, (sum, lows)) in parts.sums.as_flattened().iter().zip(parts.lows.as_flattened()).enumerate() {
                let columns = half * HALF..(half + 1) * HALF;
                assert_eq!(*sum, columns.clone().map(code).sum::<i32>());
                assert_eq!(*lows, columns.map(low).sum::<i32>());
            }
        }
    }

    #[test]
    fn packed_activations_are_the_same_on_every_instruction_set() {
        let mut x: Vec<f32> = (0..4096).map(|i| ((i * 7919) % 1009) as f32 / 7.0 - 72.0).collect();
        (x[5], x[70], x[140], x[150]) = (f32::NAN, f32::INFINITY, 1e-38, 0.5);
        x[160..192].fill(0.0);
        // Halves between two codes.
        (x[192], x[193], x[194]) = (2032.0 * 16.0, 8.0, 24.0);
        let x = x.as_chunks::<BLOCK>().0;
        let none = Block { codes: Codes::default(), scale: 0.0, sums: [0; 2], lows: [0; 2] };
        let (mut plain, mut fast) = (vec![none; x.len()], vec![none; x.len()]);
        quantize_blocks_any(x, &mut plain);
        quantize_blocks(x, &mut fast);
        for (a, b) in plain.iter().zip(&fast) {
            assert_eq!((a.codes.0, a.scale.to_bits()), (b.codes.0, b.scale.to_bits()));
            assert_eq!((a.sums, a.lows), (b.sums, b.lows));
        }
    }

    #[test]
    fn packed_activations_keep_nan_and_drop_dust() {
        let mut x = [0.0_f32; 1024];
        x[3] = f32::NAN;
        x[36] = f32::NEG_INFINITY;
        x[37] = 1.0;
        x[600] = 1e-38;
        let team = Team::new(1).unwrap();
        let mut quantized = Quantized::default();
        quantized.quantize_on(Isa::Portable, &[5.0; 1024], 1, 1024, &team).unwrap();
        quantized.quantize_on(Isa::Portable, &x, 1, 1024, &team).unwrap();
        let row = quantized.row(0);
        assert!(row.scales[0].is_nan() && row.scales[1].is_nan());
        assert_eq!(row.scales[2..], [0.0; 30]);
        assert!(row.codes.iter().all(|codes| codes.0 == [0; 64]));
        assert!(quantized.quantize(&x[..127], 1, 127, &team).is_err());
        assert!(quantized.quantize(&x[..80], 2, 40, &team).is_err());
        assert!(quantized.quantize(&x[..80], 1, 96, &team).is_err());
    }
}
