//! Sixteen rows of weights side by side, in 16 bits, and their products.

use super::super::TILE;
use super::super::activations::{ODD, Part, Row, place};
use super::super::groups::{BLOCKS, Group, offset};
use super::tile::{Lanes, Line, ROWS, floats, integers, store, transpose};
use std::arch::x86_64::*;
use tallow_format::Encoding;

/// Pairs of values per block.
const PAIRS: usize = 16;

/// One group of sixteen rows.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Packed {
    /// Pairs of `f·(u − o)`, at most 32 · 128 in magnitude, ordered as activations are, those at
    /// even places of a half block before those at odd ones: `[block][pair][row]`.
    codes: [[Line<i32>; PAIRS]; BLOCKS],
    /// `[block][half][row]`.
    minimums: [[Line<i32>; 2]; BLOCKS],
    /// `[block][row]`.
    scales: [Line<f32>; BLOCKS],
    /// `[row]`.
    minimum_scales: Line<f32>,
}

impl Packed {
    /// A tile of zeros.
    pub(super) const ZERO: Self = Self {
        codes: [[[0; TILE]; PAIRS]; BLOCKS],
        minimums: [[[0; TILE]; 2]; BLOCKS],
        scales: [[0.0; TILE]; BLOCKS],
        minimum_scales: [0.0; TILE],
    };

    /// Lays eight rows side by side in half `half` of the tile.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn put(&mut self, rows: &[Group; 8], half: usize, encoding: Encoding) {
        let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        let offset = _mm256_set1_epi16(offset(encoding));
        let lines = self.codes.as_flattened_mut();
        for (part, lines) in lines.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut codes = [_mm256_setzero_si256(); 8];
            for (codes, row) in codes.iter_mut().zip(rows) {
                // SAFETY: the sixteen codes of a half block.
                let bytes = unsafe { _mm_loadu_si128(row.codes.as_ptr().add(part * 16).cast()) };
                let wide = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(bytes, order));
                let factor = _mm256_set1_epi16(row.factors[part]);
                *codes = _mm256_mullo_epi16(_mm256_sub_epi16(wide, offset), factor);
            }
            for (line, codes) in lines.iter_mut().zip(transpose(codes)) {
                store(line, half, codes);
            }
        }
        for (i, row) in rows.iter().enumerate() {
            let at = half * 8 + i;
            self.minimum_scales[at] = row.minimum_scale;
            for (line, scale) in self.scales.iter_mut().zip(row.scales) {
                line[at] = scale;
            }
            for (line, &minimum) in self.minimums.as_flattened_mut().iter_mut().zip(&row.minimums) {
                line[at] = minimum.into();
            }
        }
    }
}

/// The lanes of the products of a tile with some rows of activations; whether there are minimums
/// is a matter of the encoding.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<const MINIMUMS: bool>(tile: &[Packed], x: &[Row<'_>; ROWS]) -> Lanes {
    let mut lanes = [[[_mm256_setzero_ps(); 2]; ROWS]; BLOCKS];
    for (g, packed) in tile.iter().enumerate() {
        let x = x.map(|row| row.part(g));
        for (j, lanes) in lanes.iter_mut().enumerate() {
            let products = products(&packed.codes[j], &x, j);
            add_block::<MINIMUMS>(packed, &x, j, &products, lanes);
        }
    }
    lanes
}

/// The exact products of block `j` of a group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products(codes: &[Line<i32>; PAIRS], x: &[Part<'_>; ROWS], j: usize) -> [[__m256i; 2]; ROWS] {
    // Without checks inside the loops: they would split the code of a block into pieces, one per
    // row of activations, each of which would load all weights again.
    let mut from = [std::ptr::null::<i16>(); ROWS];
    for (from, part) in from.iter_mut().zip(x) {
        *from = part.codes.as_ptr().wrapping_add(place(j, 0));
    }
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for (quarter, lines) in codes.as_chunks::<4>().0.iter().enumerate() {
        for (p, line) in lines.iter().enumerate() {
            let [w0, w1] = integers(line);
            for (from, sums) in from.iter().zip(&mut sums) {
                // SAFETY: pair `p` of a quarter of a block: the quarters are the even and the odd
                // places of its halves, `ODD` apart. `j` is below 8; no alignment is needed.
                let two = unsafe { from.add(quarter * ODD + 2 * p).cast::<i32>().read_unaligned() };
                let two = _mm256_set1_epi32(two);
                sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(w0, two));
                sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(w1, two));
            }
        }
    }
    sums
}

/// Adds the terms of block `j` to its lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_block<const MINIMUMS: bool>(
    packed: &Packed,
    x: &[Part<'_>; ROWS],
    j: usize,
    products: &[[__m256i; 2]; ROWS],
    lanes: &mut [[__m256; 2]; ROWS],
) {
    let scales = floats(&packed.scales[j]);
    let minimum_scales = floats(&packed.minimum_scales);
    let [first, second] = &packed.minimums[j];
    let (first, second) = (integers(first), integers(second));
    for ((x, products), lanes) in x.iter().zip(products).zip(lanes) {
        let dx = _mm256_set1_ps(x.scales[j]);
        let sums = [_mm256_set1_epi32(x.sums[0][j]), _mm256_set1_epi32(x.sums[1][j])];
        for half in 0..2 {
            let mut term = _mm256_mul_ps(scales[half], _mm256_cvtepi32_ps(products[half]));
            if MINIMUMS {
                let minimum = _mm256_add_epi32(
                    _mm256_mullo_epi32(first[half], sums[0]),
                    _mm256_mullo_epi32(second[half], sums[1]),
                );
                let minimum = _mm256_mul_ps(minimum_scales[half], _mm256_cvtepi32_ps(minimum));
                term = _mm256_sub_ps(term, minimum);
            }
            lanes[half] = _mm256_add_ps(lanes[half], _mm256_mul_ps(dx, term));
        }
    }
}
