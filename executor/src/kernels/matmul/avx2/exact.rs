//! Exact encodings: four rows of weights with up to three of activations at once.

use super::super::super::math::LANES;
use super::super::super::packed::Target;
use super::super::super::{Isa, WeightRows};
use super::super::exact::{Rows, Source};
use super::reduce::add_lanes;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows of weights at once.
const WIDE: usize = 4;
/// Rows of activations at once.
const HIGH: usize = 3;
/// Bytes of activations that stay in the cache while the weights of a range pass by.
const KEEP: usize = 192 * 1024;

/// Bytes of weights ahead of the current ones that are asked for at least, in whole tiles.
const AHEAD: usize = 8192;

/// How eight values are stored: the codes of `load`.
pub(in super::super) const F32: u8 = 0;
pub(in super::super) const U32: u8 = 1;
pub(in super::super) const U16: u8 = 2;
pub(in super::super) const TERNARY: u8 = 3;

/// Bytes of eight values.
pub(in super::super) const fn step(source: u8) -> usize {
    match source {
        F32 | U32 => 32,
        U16 => 16,
        _ => 2,
    }
}

/// The outputs of the rows `range` for all rows of `x`.
pub(in super::super) fn exact_range(x: &[f32], w: &Rows<'_>, range: Range<usize>, target: Target<'_>) {
    assert!(Isa::best() >= Isa::Avx2, "the dispatcher chose this path for a machine with AVX2");
    let bytes = |w: &WeightRows<'_>| w.bytes().as_ptr();
    // SAFETY: AVX2, FMA and F16C were found; the matrices hold `w.len()` rows of `w.k()` values.
    unsafe {
        match w.source() {
            Source::F32(values) => run::<F32>(x, w, values.as_ptr().cast(), range, target),
            Source::U32(weights) => run::<U32>(x, w, bytes(weights), range, target),
            Source::U16(weights) => run::<U16>(x, w, bytes(weights), range, target),
            Source::Ternary(weights) => run::<TERNARY>(x, w, bytes(weights), range, target),
        }
    }
}

/// # Safety
/// `start` must point to the bytes of all rows of `w`, and `range` lie within them.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run<const SOURCE: u8>(
    x: &[f32],
    w: &Rows<'_>,
    start: *const u8,
    range: Range<usize>,
    mut target: Target<'_>,
) {
    let (k, row_bytes) = (w.k(), w.row_bytes());
    let m = x.len() / k;
    let keep = (KEEP / 4 / k).next_multiple_of(HIGH).max(HIGH);
    for kept in (0..m).step_by(keep) {
        let kept_end = m.min(kept + keep);
        for n in range.clone().step_by(WIDE) {
            let rows = n..range.end.min(n + WIDE);
            // A short tile repeats its last row.
            let tile: [*const u8; WIDE] = std::array::from_fn(|i| {
                // SAFETY: a row of the matrix.
                unsafe { start.add((n + i).min(rows.end - 1) * row_bytes) }
            });
            let mut m = kept;
            while m < kept_end {
                let x_row = |i: usize| &x[(m + i) * k..(m + i + 1) * k];
                let mut out = [[0.0; WIDE]; HIGH];
                // SAFETY: the rows hold `k` values.
                let count = unsafe {
                    match kept_end - m {
                        1 => {
                            out[..1].copy_from_slice(&dots::<SOURCE, 1>(tile, [x_row(0)]));
                            1
                        }
                        2 => {
                            let x = [x_row(0), x_row(1)];
                            out[..2].copy_from_slice(&dots::<SOURCE, 2>(tile, x));
                            2
                        }
                        _ => {
                            out = dots::<SOURCE, HIGH>(tile, [x_row(0), x_row(1), x_row(2)]);
                            HIGH
                        }
                    }
                };
                for (m, out) in (m..m + count).zip(&mut out) {
                    for (n, out) in rows.clone().zip(&mut *out) {
                        *out = w.finish(n, *out);
                    }
                    target.put(m, rows.start, &mut out[..rows.len()]);
                }
                m += count;
            }
        }
    }
}

/// Eight values at `at`, as integers in `f32` (or values).
///
/// # Safety
/// `step(SOURCE)` bytes must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in super::super) unsafe fn load<const SOURCE: u8>(at: *const u8) -> __m256 {
    // SAFETY: the caller's promise; the loads need no alignment.
    unsafe {
        match SOURCE {
            F32 => _mm256_loadu_ps(at.cast()),
            U32 => _mm256_cvtepi32_ps(_mm256_loadu_si256(at.cast())),
            U16 => _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(at.cast()))),
            _ => {
                let codes = _mm256_set1_epi32(at.cast::<u16>().read_unaligned().into());
                let shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
                // The low two bits of an element pick its value; the invalid code 11 reads as 0.
                let values = _mm256_setr_ps(0.0, 1.0, -1.0, 0.0, 0.0, 1.0, -1.0, 0.0);
                _mm256_permutevar_ps(values, _mm256_srlv_epi32(codes, shifts))
            }
        }
    }
}

/// The value `i` after `at`, for the end of a row.
///
/// # Safety
/// The value must be readable.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(in super::super) unsafe fn load_one<const SOURCE: u8>(at: *const u8, i: usize) -> f32 {
    // SAFETY: the caller's promise; the reads need no alignment.
    unsafe {
        match SOURCE {
            F32 => at.cast::<f32>().add(i).read_unaligned(),
            U32 => at.cast::<i32>().add(i).read_unaligned() as f32,
            U16 => at.cast::<i16>().add(i).read_unaligned().into(),
            _ => {
                let code = at.add(i / 4).read() >> (i % 4 * 2);
                (i32::from(code & 1) - i32::from(code >> 1 & 1)) as f32
            }
        }
    }
}

/// The sums of products of four rows of weights with `M` rows of activations.
///
/// # Safety
/// Each row of weights must hold as many values as the rows of `x`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dots<const SOURCE: u8, const M: usize>(w: [*const u8; WIDE], x: [&[f32]; M]) -> [[f32; WIDE]; M] {
    let k = x[0].len();
    let tile = WIDE * k * step(SOURCE) / LANES;
    let ahead = AHEAD.next_multiple_of(tile.max(1));
    let chunks = k / LANES;
    let mut acc = [[_mm256_setzero_ps(); WIDE]; M];
    for chunk in 0..chunks {
        let at = chunk * step(SOURCE);
        let mut high = [_mm256_setzero_ps(); M];
        for (high, x) in high.iter_mut().zip(x) {
            // SAFETY: whole chunks of eight values, in each row.
            *high = unsafe { _mm256_loadu_ps(x.as_ptr().add(chunk * LANES)) };
        }
        for (i, w) in w.iter().enumerate() {
            if M == 1 && at.is_multiple_of(64) {
                prefetch(w.wrapping_add(at + ahead), 1);
            }
            // SAFETY: as above.
            let w = unsafe { load::<SOURCE>(w.add(at)) };
            for (acc, x) in acc.iter_mut().zip(high) {
                acc[i] = _mm256_fmadd_ps(w, x, acc[i]);
            }
        }
    }
    let mut out = [[0.0; WIDE]; M];
    for ((acc, x), out) in acc.into_iter().zip(x).zip(&mut out) {
        for ((acc, w), out) in acc.into_iter().zip(w).zip(out) {
            *out = if k.is_multiple_of(LANES) {
                add_lanes(acc)
            } else {
                let mut lanes = [0.0_f32; LANES];
                // SAFETY: eight elements; then the values that are left, in their lanes.
                unsafe {
                    _mm256_storeu_ps(lanes.as_mut_ptr(), acc);
                    for (i, lane) in lanes.iter_mut().enumerate().take(k % LANES) {
                        let value = load_one::<SOURCE>(w.add(chunks * step(SOURCE)), i);
                        *lane = value.mul_add(x[chunks * LANES + i], *lane);
                    }
                    add_lanes(_mm256_loadu_ps(lanes.as_ptr()))
                }
            };
        }
    }
    out
}

/// Asks for the cache lines of the `len` bytes from `at` on, which need not exist.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn prefetch(at: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast());
    }
}
