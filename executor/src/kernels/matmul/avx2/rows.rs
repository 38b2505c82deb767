//! Rows of weights with one row of activations, straight from the stored bytes. The rows are read
//! one after another, as one stream of memory.
//!
//! A vector holds the same half of blocks `j` and `j + 4` of a group in its two lanes, so that a
//! block is summed within a lane.

use super::super::super::WeightRows;
use super::super::super::disjoint::Disjoint;
use super::super::activations::{Activations, ODD, Part};
use super::super::groups::{BLOCKS, group_bytes, unit};
use super::super::put;
use super::kquants::{q2k, q3k, q4k, q5k, q6k};
use super::reduce::{add_lanes, sums_i32};
use std::arch::x86_64::*;
use std::ops::Range;

/// The block encodings, as constants for [`range`].
pub(super) const Q8: u8 = 0;
pub(super) const Q4: u8 = 1;
pub(super) const Q2K: u8 = 2;
pub(super) const Q3K: u8 = 3;
pub(super) const Q4K: u8 = 4;
pub(super) const Q5K: u8 = 5;
pub(super) const Q6K: u8 = 6;

/// Rows of weights whose lanes are added together at the end.
const ROWS: usize = 4;
/// Bytes ahead of the current ones that are asked for: enough to cover the delay of the memory,
/// which the processor's own prefetch, stopping at the end of each page, does not.
const AHEAD: usize = 8192;

/// The outputs of the rows `range` of `w` for all rows of `x`.
///
/// # Safety
/// `KIND` must be the encoding of `w`, whose rows hold as many values as those of `x`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn range<const KIND: u8>(
    x: &Activations,
    w: &WeightRows<'_>,
    range: Range<usize>,
    y: &Disjoint<'_, f32>,
) {
    // A constant here, where `group_bytes` is not.
    let step = match KIND {
        Q8 => 272,
        Q2K => 84,
        Q3K => 110,
        Q4 | Q4K => 144,
        Q5K => 176,
        _ => 210,
    };
    debug_assert_eq!(step, group_bytes(w.encoding()));
    let row_bytes = w.row_bytes();
    let (groups, rest) = (row_bytes / step, row_bytes % step / w.encoding().block_bytes());
    let unit = unit(w.encoding());
    for n in range.clone().step_by(ROWS) {
        let rows = n..range.end.min(n + ROWS);
        // A short tile repeats its last row.
        let mut starts = [w.bytes().as_ptr(); ROWS];
        for (i, start) in starts.iter_mut().enumerate() {
            *start = start.wrapping_add((n + i).min(rows.end - 1) * row_bytes);
        }
        for m in 0..x.m() {
            let x = x.row(m);
            let mut acc = [_mm256_setzero_ps(); ROWS];
            for (start, acc) in starts.iter().zip(&mut acc) {
                for g in 0..groups {
                    let at = start.wrapping_add(g * step);
                    prefetch(at.wrapping_add(AHEAD), step);
                    // SAFETY: a whole group of a row of the encoding `KIND`.
                    *acc = unsafe { group::<KIND, true>(at, BLOCKS, x.part(g), *acc) };
                }
                if rest > 0 {
                    let at = start.wrapping_add(groups * step);
                    prefetch(at.wrapping_add(AHEAD), step);
                    // SAFETY: the blocks after the last whole group.
                    *acc = unsafe { group::<KIND, false>(at, rest, x.part(groups), *acc) };
                }
            }
            let mut out = [0.0; ROWS];
            for (out, acc) in out.iter_mut().zip(acc) {
                *out = add_lanes(acc) * unit;
            }
            put(y, w.rows(), m, rows.clone(), &out);
        }
    }
}

/// Adds the terms of one group to the lanes.
///
/// # Safety
/// `count` blocks (8 when `FULL`) of the encoding `KIND` must be readable at `w`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn group<const KIND: u8, const FULL: bool>(w: *const u8, count: usize, x: Part<'_>, acc: __m256) -> __m256 {
    // SAFETY: the caller's promise; super-blocks are always full.
    unsafe {
        match KIND {
            Q8 => q8::<FULL>(w, count, x, acc),
            Q4 => q4::<FULL>(w, count, x, acc),
            Q2K => q2k(&*w.cast(), x, acc),
            Q3K => q3k(&*w.cast(), x, acc),
            Q4K => q4k(&*w.cast(), x, acc),
            Q5K => q5k(&*w.cast(), x, acc),
            _ => q6k(&*w.cast(), x, acc),
        }
    }
}

/// Asks for the cache lines of the `len` bytes from `at` on, which need not exist.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn prefetch(at: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast());
    }
}

/// 16 bytes at `low` and 16 at `high`, in the two lanes.
///
/// # Safety
/// They must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn load_two(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise; the loads need no alignment.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}

/// The products of the codes of half `half` of blocks `j` and `j + 4`, bytes without sign, with the
/// activations: four sums of each block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot(codes: __m256i, x: Part<'_>, j: usize, half: usize) -> __m256i {
    let even = _mm256_and_si256(codes, _mm256_set1_epi16(255));
    dot_wide([even, _mm256_srli_epi16::<8>(codes)], x, j, half)
}

/// As [`dot`], of codes in 16 bits: those at even places, and those at odd ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_wide(codes: [__m256i; 2], x: Part<'_>, j: usize, half: usize) -> __m256i {
    // The two vectors from `place(j, half * 16)` on.
    let at = x.codes.as_chunks::<{ 2 * ODD }>().0[2 * j + half].as_ptr();
    // SAFETY: the even places of a half of two blocks and, `ODD` further, the odd ones.
    let (even, odd) = unsafe { (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(ODD).cast())) };
    _mm256_add_epi32(_mm256_madd_epi16(codes[0], even), _mm256_madd_epi16(codes[1], odd))
}

/// The sums of the codes of activations of half `half` of the blocks of a group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_sums(x: Part<'_>, half: usize) -> __m256i {
    // SAFETY: eight numbers of 32 bits.
    unsafe { _mm256_loadu_si256(x.sums[half].as_ptr().cast()) }
}

/// As [`load_sums`], of whole blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn block_sums(x: Part<'_>) -> __m256i {
    _mm256_add_epi32(load_sums(x, 0), load_sums(x, 1))
}

/// Adds eight terms, times the scales of the activations, to the lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_terms(x: Part<'_>, terms: __m256, acc: __m256) -> __m256 {
    // SAFETY: eight numbers of 32 bits.
    let scales = unsafe { _mm256_loadu_ps(x.scales.as_ptr()) };
    _mm256_add_ps(acc, _mm256_mul_ps(scales, terms))
}

/// The eight scales of a group's blocks, which are `STEP` bytes apart; those from `count` on are
/// zero.
///
/// # Safety
/// `count` blocks (8 when `FULL`) must be readable from `at` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scales<const STEP: usize, const FULL: bool>(at: *const u8, count: usize) -> __m256 {
    // Put together in general registers, since the vector units are busy with the codes.
    let mut words = [0_u64; 2];
    for (j, word) in words.iter_mut().enumerate() {
        for i in 0..4 {
            if FULL || j * 4 + i < count {
                // SAFETY: the block is readable; the read needs no alignment.
                let scale = unsafe { at.add((j * 4 + i) * STEP).cast::<u16>().read_unaligned() };
                *word |= u64::from(scale) << (16 * i);
            }
        }
    }
    let words = _mm_set_epi64x(words[1] as i64, words[0] as i64);
    _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(words))
}

/// The codes of half `half` of blocks `j` and `j + 4`, whose halves are 16 bytes of
/// [`STEP`](scales)-byte blocks; blocks from `count` on are zero.
///
/// # Safety
/// As [`scales`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load_blocks<const STEP: usize, const FULL: bool>(
    w: *const u8,
    j: usize,
    half: usize,
    count: usize,
) -> __m256i {
    let at = w.wrapping_add(j * STEP + 2 + half * 16);
    // SAFETY: blocks below `count` are readable.
    unsafe {
        if FULL || j + 4 < count {
            load_two(at, at.add(4 * STEP))
        } else if j < count {
            _mm256_zextsi128_si256(_mm_loadu_si128(at.cast()))
        } else {
            _mm256_setzero_si256()
        }
    }
}

/// # Safety
/// As [`group`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q8<const FULL: bool>(w: *const u8, count: usize, x: Part<'_>, acc: __m256) -> __m256 {
    let mut products = [_mm256_setzero_si256(); 4];
    for (j, product) in products.iter_mut().enumerate() {
        for half in 0..2 {
            // SAFETY: the caller's promise.
            let w = unsafe { load_blocks::<34, FULL>(w, j, half, count) };
            let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(w));
            let codes = [even, _mm256_srai_epi16::<8>(w)];
            *product = _mm256_add_epi32(*product, dot_wide(codes, x, j, half));
        }
    }
    // SAFETY: the caller's promise.
    let scales = unsafe { scales::<34, FULL>(w, count) };
    let terms = _mm256_mul_ps(scales, _mm256_cvtepi32_ps(sums_i32(products)));
    add_terms(x, terms, acc)
}

/// # Safety
/// As [`group`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q4<const FULL: bool>(w: *const u8, count: usize, x: Part<'_>, acc: __m256) -> __m256 {
    let mask = _mm256_set1_epi8(15);
    let mut products = [_mm256_setzero_si256(); 4];
    for (j, product) in products.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let w = unsafe { load_blocks::<18, FULL>(w, j, 0, count) };
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask);
        *product = _mm256_add_epi32(dot(_mm256_and_si256(w, mask), x, j, 0), dot(high, x, j, 1));
    }
    // SAFETY: the caller's promise.
    let scales = unsafe { scales::<18, FULL>(w, count) };
    // Codes are stored with 8 added.
    let offsets = _mm256_slli_epi32::<3>(block_sums(x));
    let products = _mm256_sub_epi32(sums_i32(products), offsets);
    add_terms(x, _mm256_mul_ps(scales, _mm256_cvtepi32_ps(products)), acc)
}
