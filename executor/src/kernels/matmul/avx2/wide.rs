//! Tiles of `q8`, whose codes are widened to 16 bits: 255 · 127 · 2 would not fit the sum of two
//! products of bytes.

use super::super::TILE;
use super::super::groups::{BLOCKS, Group};
use super::tile::{Lanes, Line, Pass, ROWS, floats, integers, store, transpose};
use std::arch::x86_64::*;

/// Pairs of values per block.
const PAIRS: usize = 16;

/// One group of sixteen rows.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Packed {
    /// Pairs of 16-bit codes without offset: `[block][pair][row]`.
    codes: [[Line<i32>; PAIRS]; BLOCKS],
    /// `[block][row]`.
    scales: [Line<f32>; BLOCKS],
}

impl Packed {
    /// A tile of zeros.
    pub(super) const ZERO: Self = Self { codes: [[[0; TILE]; PAIRS]; BLOCKS], scales: [[0.0; TILE]; BLOCKS] };

    /// Lays eight rows side by side in half `half` of the tile.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn put(&mut self, rows: &[Group; 8], half: usize) {
        let lines = self.codes.as_flattened_mut();
        for (eight, lines) in lines.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut codes = [_mm256_setzero_si256(); 8];
            for (codes, row) in codes.iter_mut().zip(rows) {
                // SAFETY: sixteen codes of 256.
                let bytes = unsafe { _mm_loadu_si128(row.codes.as_ptr().add(eight * 16).cast()) };
                let signed = _mm_xor_si128(bytes, _mm_set1_epi8(-128));
                *codes = _mm256_cvtepi8_epi16(signed);
            }
            for (line, codes) in lines.iter_mut().zip(transpose(codes)) {
                store(line, half, codes);
            }
        }
        for (i, row) in rows.iter().enumerate() {
            for (line, scale) in self.scales.iter_mut().zip(row.scales) {
                line[half * 8 + i] = scale;
            }
        }
    }
}

/// The lanes of the products of a tile with the activations of a pass.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply(tile: &[Packed], pass: &Pass<'_>) -> Lanes {
    let mut lanes = [[[_mm256_setzero_ps(); 2]; ROWS]; BLOCKS];
    for (g, packed) in tile.iter().enumerate() {
        for (j, lanes) in lanes.iter_mut().enumerate() {
            let products = block(&packed.codes[j], pass, g, j);
            let scales = floats(&packed.scales[j]);
            for (r, lanes) in lanes.iter_mut().enumerate() {
                let dx = _mm256_set1_ps(pass.rows[r].scales[g][j]);
                for half in 0..2 {
                    let product = _mm256_cvtepi32_ps(products[r][half]);
                    let term = _mm256_mul_ps(scales[half], product);
                    lanes[half] = _mm256_add_ps(lanes[half], _mm256_mul_ps(dx, term));
                }
            }
        }
    }
    lanes
}

/// The exact products of block `j` of group `g`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn block(codes: &[Line<i32>; PAIRS], pass: &Pass<'_>, g: usize, j: usize) -> [[__m256i; 2]; ROWS] {
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    let mut x = [std::ptr::null::<i16>(); ROWS];
    for (x, row) in x.iter_mut().zip(pass.wide) {
        *x = row[g].as_chunks::<32>().0[j].as_ptr();
    }
    for (p, line) in codes.iter().enumerate() {
        let [w0, w1] = integers(line);
        for (x, sums) in x.iter().zip(&mut sums) {
            // SAFETY: pair `p` of the 32 codes of a block; the read needs no alignment.
            let two = unsafe { x.add(2 * p).cast::<i32>().read_unaligned() };
            let two = _mm256_set1_epi32(two);
            sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(w0, two));
            sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(w1, two));
        }
    }
    sums
}
