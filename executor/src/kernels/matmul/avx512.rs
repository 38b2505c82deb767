//! Exact products of several rows of activations on x86-64 with AVX-512.
//!
//! Eight rows of weights become a panel of `f32` once, two rows to a vector with the eight lanes of each, and tiles of
//! six rows of activations pass over it. Lanes are those of `exact.rs`, so that the sums have the same bits.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take pointers, and functions compiled for an instruction set are called after it was found"
)]

use super::super::math::LANES;
use super::super::packed::Target;
use super::super::{Isa, WeightRows};
use super::avx2::{F32, TERNARY, U16, U32, load, load_one, step};
use super::exact::{Rows, Source};
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows of weights in a panel.
const PANEL: usize = 8;
/// Values of a panel for eight columns.
const CHUNK: usize = PANEL * LANES;
/// Rows of activations at once.
const HIGH: usize = 6;
/// Bytes of panels that stay in the second-level cache while all activations pass by, and most panels.
const KEEP: usize = 768 * 1024;
const MOST: usize = 8;
/// With fewer rows of activations a panel is not worth its making.
pub(super) const LEAST: usize = 4;

/// A vector's worth of values at a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 2 * LANES]);

/// The outputs of the rows `range` for all rows of `x`.
pub(super) fn exact_range(x: &[f32], w: &Rows<'_>, range: Range<usize>, target: Target<'_>) {
    assert!(Isa::best() >= Isa::Avx512, "the dispatcher chose this path for a machine with AVX-512");
    assert!(range.end <= w.len() && w.k() > 0, "rows of the matrix");
    let bytes = |w: &WeightRows<'_>| w.bytes().as_ptr();
    // SAFETY: AVX-512 was found; the matrices hold `w.len()` rows of `w.k()` values.
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
unsafe fn run<const SOURCE: u8>(
    x: &[f32],
    w: &Rows<'_>,
    start: *const u8,
    range: Range<usize>,
    mut target: Target<'_>,
) {
    thread_local! {
        /// Panels of this thread.
        static PANELS: std::cell::RefCell<Vec<Line>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let (k, row_bytes) = (w.k(), w.row_bytes());
    let m = x.len() / k;
    let lines = k.div_ceil(LANES) * CHUNK / (2 * LANES);
    let count = (KEEP / (lines * size_of::<Line>())).clamp(1, MOST);
    let mut panels = PANELS.take();
    if panels.len() < count * lines {
        panels.resize(count * lines, Line([0.0; 2 * LANES]));
    }
    for first in range.clone().step_by(count * PANEL) {
        let last = range.end.min(first + count * PANEL);
        for (row, panel) in (first..last).step_by(PANEL).zip(panels.chunks_exact_mut(lines)) {
            // A short panel repeats its last row.
            let rows: [*const u8; PANEL] = std::array::from_fn(|i| {
                // SAFETY: a row of the matrix.
                unsafe { start.add((row + i).min(last - 1) * row_bytes) }
            });
            // SAFETY: the rows hold `k` values, and the panel all of them.
            unsafe { unpack::<SOURCE>(rows, k, panel) };
        }
        for from in (0..m).step_by(HIGH) {
            let high = HIGH.min(m - from);
            let x: [&[f32]; HIGH] = std::array::from_fn(|i| &x[(from + i.min(high - 1)) * k..][..k]);
            for (row, panel) in (first..last).step_by(PANEL).zip(panels.chunks_exact(lines)) {
                let mut out = match high {
                    1 => dots::<1>(panel, x),
                    2 => dots::<2>(panel, x),
                    3 => dots::<3>(panel, x),
                    4 => dots::<4>(panel, x),
                    5 => dots::<5>(panel, x),
                    _ => dots::<HIGH>(panel, x),
                };
                let rows = row..last.min(row + PANEL);
                for (m, out) in (from..from + high).zip(&mut out) {
                    for (n, out) in rows.clone().zip(&mut *out) {
                        *out = w.finish(n, *out);
                    }
                    target.put(m, rows.start, &mut out[..rows.len()]);
                }
            }
        }
    }
    PANELS.set(panels);
}

/// Eight rows as `f32`: for each eight columns four vectors of two rows, zeros past the end.
///
/// # Safety
/// Each row must hold `k` values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
unsafe fn unpack<const SOURCE: u8>(rows: [*const u8; PANEL], k: usize, panel: &mut [Line]) {
    for (chunk, lines) in panel.chunks_exact_mut(PANEL / 2).enumerate() {
        let at = chunk * step(SOURCE);
        let left = k - chunk * LANES;
        for (line, pair) in lines.iter_mut().zip(rows.as_chunks::<2>().0) {
            for (half, row) in line.0.as_chunks_mut::<LANES>().0.iter_mut().zip(pair) {
                if left >= LANES {
                    // SAFETY: eight values of the row, and room for them.
                    unsafe { _mm256_storeu_ps(half.as_mut_ptr(), load::<SOURCE>(row.add(at))) };
                    continue;
                }
                *half = [0.0; LANES];
                for (i, value) in half.iter_mut().enumerate().take(left) {
                    // SAFETY: a value of the row.
                    *value = unsafe { load_one::<SOURCE>(row.add(at), i) };
                }
            }
        }
    }
}

/// The sums of products of eight rows of weights with `M` rows of activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn dots<const M: usize>(panel: &[Line], x: [&[f32]; HIGH]) -> [[f32; PANEL]; HIGH] {
    let k = x[0].len();
    let whole = k / LANES;
    assert!(panel.len() >= k.div_ceil(LANES) * (PANEL / 2) && x.iter().all(|x| x.len() == k), "lengths of a tile");
    let mut acc = [[_mm512_setzero_ps(); PANEL / 2]; M];
    for (chunk, lines) in panel.chunks_exact(PANEL / 2).take(whole).enumerate() {
        // SAFETY: lines are whole vectors at cache lines, and each row of `x` has eight more values.
        unsafe {
            let w: [__m512; PANEL / 2] = std::array::from_fn(|i| _mm512_load_ps(lines[i].0.as_ptr()));
            for (acc, x) in acc.iter_mut().zip(x) {
                let x = _mm512_broadcast_f32x8(_mm256_loadu_ps(x.as_ptr().add(chunk * LANES)));
                for (acc, w) in acc.iter_mut().zip(w) {
                    *acc = _mm512_fmadd_ps(w, x, *acc);
                }
            }
        }
    }
    if whole * LANES < k {
        // Lanes without a value stay as they are.
        let mask = (1_u8 << (k % LANES)) - 1;
        let both = u16::from(mask) << LANES | u16::from(mask);
        let lines = &panel[whole * (PANEL / 2)..];
        for (acc, x) in acc.iter_mut().zip(x) {
            // SAFETY: the mask leaves out what lies past the end of the row; lines as above.
            unsafe {
                let x = _mm512_broadcast_f32x8(_mm256_maskz_loadu_ps(mask, x.as_ptr().add(whole * LANES)));
                for (acc, line) in acc.iter_mut().zip(lines) {
                    *acc = _mm512_mask3_fmadd_ps(_mm512_load_ps(line.0.as_ptr()), x, *acc, both);
                }
            }
        }
    }
    let mut out = [[0.0; PANEL]; HIGH];
    for (acc, out) in acc.into_iter().zip(&mut out) {
        let sums = [sum(acc[0], acc[1]), sum(acc[2], acc[3])];
        // The first of each four.
        let index = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
        let all = _mm512_permutex2var_ps(sums[0], index, sums[1]);
        // SAFETY: room for eight values.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm512_castps512_ps256(all)) };
    }
    out
}

/// The sums of the lanes of four rows, at the first element of each quarter: halves, then quarters, then the two that are
/// left, the order of `add_lanes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
fn sum(a: __m512, b: __m512) -> __m512 {
    let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
    let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
    let halves = _mm512_add_ps(low, high);
    let quarters = _mm512_add_ps(halves, _mm512_permute_ps::<0b01_00_11_10>(halves));
    _mm512_add_ps(quarters, _mm512_permute_ps::<0b10_11_00_01>(quarters))
}
