//! Sixteen rows of weights with many rows of activations.
//!
//! A tile of weights is brought into common form once, with the rows side by side: an element of
//! 32 bits holds two codes of one row ([`packed`](super::packed)), and is multiplied with the same
//! two values of a row of activations. So the sums of blocks come out row by row, and lane `j` of
//! the sum is a vector over rows.

use super::super::super::WeightRows;
use super::super::super::disjoint::Disjoint;
use super::super::activations::Activations;
use super::super::groups::{BLOCKS, Group, group_bytes, has_minimums, unit, unpack_scales};
use super::super::{TILE, put};
use super::packed::{Packed, multiply};
use super::unpack::unpack_codes;
use std::arch::x86_64::*;
use std::cell::RefCell;
use std::ops::Range;

/// Rows of activations that one pass over a tile takes.
pub(super) const ROWS: usize = 4;

/// Sixteen elements, one per row of the tile.
pub(super) type Line<T> = [T; TILE];

/// The lanes of the sums of a pass: `[lane][row of activations][half of the tile]`.
pub(super) type Lanes = [[[__m256; 2]; ROWS]; BLOCKS];

thread_local! {
    /// A tile of this thread, kept for the next one.
    static TILE_MEMORY: RefCell<Vec<Packed>> = RefCell::default();
}

/// The outputs of the rows `range` of `w` for all rows of `x`, of which there are many.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn range(x: &Activations, w: &WeightRows<'_>, range: Range<usize>, y: &Disjoint<'_, f32>) {
    let mut tile = TILE_MEMORY.take();
    let unit = unit(w.encoding());
    for start in range.clone().step_by(TILE) {
        let rows = start..range.end.min(start + TILE);
        pack(w, rows.clone(), &mut tile);
        for m in (0..x.m()).step_by(ROWS) {
            let end = x.m().min(m + ROWS);
            // A short pass repeats its last row.
            let mut pass = [x.row(m); ROWS];
            for (i, row) in pass.iter_mut().enumerate() {
                *row = x.row((m + i).min(end - 1));
            }
            let lanes = if has_minimums(w.encoding()) {
                multiply::<true>(&tile, &pass)
            } else {
                multiply::<false>(&tile, &pass)
            };
            let out = finish(&lanes, unit);
            for (m, out) in (m..end).zip(&out) {
                put(y, w.rows(), m, rows.clone(), out);
            }
        }
    }
    TILE_MEMORY.set(tile);
}

/// Packs the rows `rows` of `w`, at most sixteen; those that are missing are zero.
#[target_feature(enable = "avx2,fma,f16c")]
fn pack(w: &WeightRows<'_>, rows: Range<usize>, tile: &mut Vec<Packed>) {
    let step = group_bytes(w.encoding());
    let groups = w.row_bytes().div_ceil(step);
    tile.resize(groups, Packed::ZERO);
    let mut unpacked = [const { Group::ZERO }; 8];
    for (g, packed) in tile.iter_mut().enumerate() {
        for half in 0..TILE / 8 {
            for (i, group) in unpacked.iter_mut().enumerate() {
                let row = rows.start + half * 8 + i;
                if row >= rows.end {
                    *group = Group::ZERO;
                    continue;
                }
                let bytes = w.row(row);
                let end = bytes.len().min((g + 1) * step);
                let bytes = &bytes[g * step..end];
                unpack_codes(w.encoding(), bytes, &mut group.codes);
                unpack_scales(w.encoding(), bytes, group);
            }
            packed.put(&unpacked, half, w.encoding());
        }
    }
}

/// Adds the lanes in the order of `add_lanes`, eight rows at once, and applies the unit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn finish(lanes: &Lanes, unit: f32) -> [Line<f32>; ROWS] {
    let unit = _mm256_set1_ps(unit);
    let mut out = [[0.0; TILE]; ROWS];
    for (r, out) in out.iter_mut().enumerate() {
        for (half, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut four = [_mm256_setzero_ps(); 4];
            for (j, four) in four.iter_mut().enumerate() {
                *four = _mm256_add_ps(lanes[j][r][half], lanes[j + 4][r][half]);
            }
            let even = _mm256_add_ps(four[0], four[2]);
            let odd = _mm256_add_ps(four[1], four[3]);
            let sum = _mm256_mul_ps(_mm256_add_ps(even, odd), unit);
            // SAFETY: eight elements.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) };
        }
    }
    out
}

/// A line of numbers as two vectors.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn floats(line: &Line<f32>) -> [__m256; 2] {
    // SAFETY: two times eight elements.
    unsafe { [_mm256_loadu_ps(line.as_ptr()), _mm256_loadu_ps(line.as_ptr().add(8))] }
}

/// A line of integers as two vectors.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn integers(line: &Line<i32>) -> [__m256i; 2] {
    // SAFETY: two times eight elements.
    unsafe { [_mm256_loadu_si256(line.as_ptr().cast()), _mm256_loadu_si256(line.as_ptr().add(8).cast())] }
}

/// Stores a vector as half `half` of a line.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store(line: &mut Line<i32>, half: usize, v: __m256i) {
    let part = &mut line.as_chunks_mut::<8>().0[half];
    // SAFETY: eight elements.
    unsafe { _mm256_storeu_si256(part.as_mut_ptr().cast(), v) };
}

/// Transposes eight rows of eight 32-bit elements.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab0, ab1) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    let (ef0, ef1) = (_mm256_unpacklo_epi32(e, f), _mm256_unpackhi_epi32(e, f));
    let (gh0, gh1) = (_mm256_unpacklo_epi32(g, h), _mm256_unpackhi_epi32(g, h));
    let top = [
        _mm256_unpacklo_epi64(ab0, cd0),
        _mm256_unpackhi_epi64(ab0, cd0),
        _mm256_unpacklo_epi64(ab1, cd1),
        _mm256_unpackhi_epi64(ab1, cd1),
    ];
    let bottom = [
        _mm256_unpacklo_epi64(ef0, gh0),
        _mm256_unpackhi_epi64(ef0, gh0),
        _mm256_unpacklo_epi64(ef1, gh1),
        _mm256_unpackhi_epi64(ef1, gh1),
    ];
    let mut out = [_mm256_setzero_si256(); 8];
    for i in 0..4 {
        out[i] = _mm256_permute2x128_si256::<0x20>(top[i], bottom[i]);
        out[i + 4] = _mm256_permute2x128_si256::<0x31>(top[i], bottom[i]);
    }
    out
}
