//! Tiles of the encodings whose codes have at most six bits: `q4` and the K-quants.

use super::super::TILE;
use super::super::activations::place;
use super::super::groups::{BLOCKS, Group, HALVES, offset};
use super::tile::{Lanes, Line, Pass, ROWS, floats, integers, store, transpose};
use std::arch::x86_64::*;
use tallow_format::Encoding;

/// Fours of values per half block.
const FOURS: usize = 4;

/// What [`multiply`] has to do besides the products: codes have an offset;
pub(super) const OFFSET: u8 = 0;
/// codes have an offset and six bits, so that only two sums of products fit 16 bits;
pub(super) const SIX_BITS: u8 = 1;
/// there are minimums.
pub(super) const MINIMUMS: u8 = 2;

/// One group of sixteen rows.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Packed {
    /// Four codes: `[half block][four][row]`.
    codes: [[Line<i32>; FOURS]; HALVES],
    /// The multiplier of a half block, in both 16-bit halves: `[half block][row]`.
    factors: [Line<i32>; HALVES],
    /// For the two halves of a block, minimums, or multipliers times offset: `[block][row]`.
    minimums: [Line<i32>; BLOCKS],
    /// `[block][row]`.
    scales: [Line<f32>; BLOCKS],
    /// `[row]`.
    minimum_scales: Line<f32>,
}

impl Packed {
    /// A tile of zeros.
    pub(super) const ZERO: Self = Self {
        codes: [[[0; TILE]; FOURS]; HALVES],
        factors: [[0; TILE]; HALVES],
        minimums: [[0; TILE]; BLOCKS],
        scales: [[0.0; TILE]; BLOCKS],
        minimum_scales: [0.0; TILE],
    };

    /// Lays eight rows side by side in half `half` of the tile.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn put(&mut self, rows: &[Group; 8], half: usize, encoding: Encoding) {
        let lines = self.codes.as_flattened_mut();
        for (eight, lines) in lines.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut codes = [_mm256_setzero_si256(); 8];
            for (codes, row) in codes.iter_mut().zip(rows) {
                // SAFETY: 32 codes of 256.
                *codes = unsafe { _mm256_loadu_si256(row.codes.as_ptr().add(eight * 32).cast()) };
            }
            for (line, codes) in lines.iter_mut().zip(transpose(codes)) {
                store(line, half, codes);
            }
        }
        let offset = offset(encoding);
        for (i, row) in rows.iter().enumerate() {
            let at = half * 8 + i;
            self.minimum_scales[at] = row.minimum_scale;
            for (line, scale) in self.scales.iter_mut().zip(row.scales) {
                line[at] = scale;
            }
            for (line, &factor) in self.factors.iter_mut().zip(&row.factors) {
                line[at] = pair(factor, factor);
            }
            let factors = row.factors.as_chunks::<2>().0;
            let minimums = row.minimums.as_chunks::<2>().0;
            for ((line, factors), minimums) in self.minimums.iter_mut().zip(factors).zip(minimums) {
                let [a, b] = if offset == 0 { *minimums } else { [factors[0] * offset, factors[1] * offset] };
                line[at] = pair(a, b);
            }
        }
    }
}

/// Two 16-bit integers in one of 32 bits, the first in the low half.
#[inline]
fn pair(low: i16, high: i16) -> i32 {
    i32::from(low as u16) | i32::from(high) << 16
}

/// The lanes of the products of a tile with the activations of a pass.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<const KIND: u8>(tile: &[Packed], pass: &Pass<'_>) -> Lanes {
    let mut lanes = [[[_mm256_setzero_ps(); 2]; ROWS]; BLOCKS];
    for (g, packed) in tile.iter().enumerate() {
        // Without checks inside the loops: they would split the code of a block into pieces, one
        // per row of activations, each of which would load all weights again.
        let mut codes = [std::ptr::null::<i8>(); ROWS];
        let mut sums = [std::ptr::null::<i16>(); ROWS];
        let mut scales = [std::ptr::null::<f32>(); ROWS];
        for (r, row) in pass.rows.iter().enumerate() {
            codes[r] = row.codes[g].as_ptr();
            sums[r] = row.sums[g].as_ptr();
            scales[r] = row.scales[g].as_ptr();
        }
        for (j, lanes) in lanes.iter_mut().enumerate() {
            // SAFETY: `j` is below 8, and the pointers are to the arrays of a group.
            unsafe {
                let mut products = [[_mm256_setzero_si256(); 2]; ROWS];
                add_half::<KIND>(packed, &codes, j, 0, &mut products);
                add_half::<KIND>(packed, &codes, j, 1, &mut products);
                add_block::<KIND>(packed, &sums, &scales, j, &products, lanes);
            }
        }
    }
    lanes
}

/// Adds the exact products of half `half` of block `j`, codes taken without sign.
///
/// # Safety
/// The pointers must be to the codes of a group, `j` be below 8 and `half` below 2.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_half<const KIND: u8>(
    packed: &Packed,
    x: &[*const i8; ROWS],
    j: usize,
    half: usize,
    products: &mut [[__m256i; 2]; ROWS],
) {
    let codes = &packed.codes[2 * j + half];
    let factors = integers(&packed.factors[2 * j + half]);
    let at = place(j, half);
    // Two products are at most 31 · 127 · 2 (with six bits 63 · 127 · 2), so four such sums (with
    // six bits two) fit 16 bits.
    let at_once = if KIND == SIX_BITS { 2 } else { 4 };
    for (part, codes) in codes.chunks_exact(at_once).enumerate() {
        let first = at + 4 * at_once * part;
        let mut pairs = [[_mm256_setzero_si256(); 2]; ROWS];
        for (i, line) in codes.iter().enumerate() {
            let [w0, w1] = integers(line);
            for (x, pairs) in x.iter().zip(&mut pairs) {
                // SAFETY: four of the sixteen codes of a half; no alignment is needed.
                let four = unsafe { x.add(first + 4 * i).cast::<i32>().read_unaligned() };
                let four = _mm256_set1_epi32(four);
                pairs[0] = _mm256_add_epi16(pairs[0], _mm256_maddubs_epi16(w0, four));
                pairs[1] = _mm256_add_epi16(pairs[1], _mm256_maddubs_epi16(w1, four));
            }
        }
        for (products, pairs) in products.iter_mut().zip(pairs) {
            for half in 0..2 {
                let scaled = _mm256_madd_epi16(pairs[half], factors[half]);
                products[half] = _mm256_add_epi32(products[half], scaled);
            }
        }
    }
}

/// Adds the terms of block `j` to its lane.
///
/// # Safety
/// The pointers must be to the sums and scales of a group, and `j` be below 8.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_block<const KIND: u8>(
    packed: &Packed,
    sums: &[*const i16; ROWS],
    scales: &[*const f32; ROWS],
    j: usize,
    products: &[[__m256i; 2]; ROWS],
    lanes: &mut [[__m256; 2]; ROWS],
) {
    let w_scales = floats(&packed.scales[j]);
    let minimum_scales = floats(&packed.minimum_scales);
    let minimums = integers(&packed.minimums[j]);
    for (r, lanes) in lanes.iter_mut().enumerate() {
        // SAFETY: two of sixteen sums, of 16 bits each, and one of eight scales.
        let (sums, dx) = unsafe {
            (
                _mm256_set1_epi32(sums[r].add(2 * j).cast::<i32>().read_unaligned()),
                _mm256_set1_ps(scales[r].add(j).read()),
            )
        };
        for half in 0..2 {
            let mut product = products[r][half];
            let minimum = _mm256_madd_epi16(minimums[half], sums);
            if KIND != MINIMUMS {
                product = _mm256_sub_epi32(product, minimum);
            }
            let mut term = _mm256_mul_ps(w_scales[half], _mm256_cvtepi32_ps(product));
            if KIND == MINIMUMS {
                let minimum = _mm256_mul_ps(minimum_scales[half], _mm256_cvtepi32_ps(minimum));
                term = _mm256_sub_ps(term, minimum);
            }
            lanes[half] = _mm256_add_ps(lanes[half], _mm256_mul_ps(dx, term));
        }
    }
}
