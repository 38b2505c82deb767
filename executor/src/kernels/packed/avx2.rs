//! AVX2: codes widened to 16 bits, multiplied and added in pairs.
#![allow(unsafe_code, reason = "vector loads and stores take pointers")]

use super::activations::{Quantized, Row};
use super::block::Unpacked;
use super::layout::{BLOCK, BLOCKS, PANEL, has_halves, has_minimums, offset, unit};
use super::{Isa, Packed, Target};
use std::arch::x86_64::*;
use std::ops::Range;
use tallow_format::Encoding;

/// Tokens that run over an unpacked panel at once.
const TOKENS: usize = 2;

/// As [`super::product`]. `wide` is room for the tokens' codes.
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: Target<'_>,
    unpacked: &mut Unpacked,
    wide: &mut Vec<i16>,
) {
    assert!(Isa::best() >= Isa::Avx2, "the dispatcher chose this path for a machine with AVX2");
    let k = x.k();
    if wide.len() < k * x.m() {
        wide.resize(k * x.m(), 0);
    }
    for (m, wide) in wide.chunks_exact_mut(k.max(1)).enumerate().take(x.m()) {
        let row = x.row(m);
        for ((wide, high), low) in wide.iter_mut().zip(row.high).zip(row.low) {
            *wide = 256 * i16::from(*high) + i16::from(*low);
        }
    }
    for panel in panels {
        unpacked.fill(&w.layout, w.panel(panel), false);
        let rows = PANEL.min(w.rows() - panel * PANEL);
        let mut first = 0;
        while first < x.m() {
            let mut y = [[0.0; PANEL]; TOKENS];
            let count = TOKENS.min(x.m() - first);
            let codes = &wide[first * k..(first + count) * k];
            // SAFETY: the features were found, and the panel has been unpacked for rows of this length.
            unsafe {
                if count == TOKENS {
                    any::<TOKENS>(w.encoding(), [x.row(first), x.row(first + 1)], codes, unpacked, &mut y);
                } else {
                    let [y, _] = &mut y;
                    any::<1>(w.encoding(), [x.row(first)], codes, unpacked, std::array::from_mut(y));
                }
            }
            for (i, y) in y.iter().enumerate().take(count) {
                target.put(first + i, panel * PANEL, &y[..rows]);
            }
            first += count;
        }
    }
}

/// [`tile`] for an encoding.
///
/// # Safety
/// As there.
unsafe fn any<const T: usize>(
    encoding: Encoding,
    tokens: [Row<'_>; T],
    codes: &[i16],
    w: &Unpacked,
    y: &mut [[f32; PANEL]; T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (has_halves(encoding), has_minimums(encoding)) {
            (false, false) => tile::<T, false, false>(encoding, tokens, codes, w, y),
            (false, true) => tile::<T, false, true>(encoding, tokens, codes, w, y),
            (true, false) => tile::<T, true, false>(encoding, tokens, codes, w, y),
            (true, true) => tile::<T, true, true>(encoding, tokens, codes, w, y),
        }
    }
}

/// The outputs of `T` tokens, whose codes are `codes` `[T, k]`, with one unpacked panel of codes without sign.
///
/// # Safety
/// The machine has the features and the panel the blocks of the rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const T: usize, const HALVES: bool, const MINIMUMS: bool>(
    encoding: Encoding,
    tokens: [Row<'_>; T],
    codes: &[i16],
    w: &Unpacked,
    y: &mut [[f32; PANEL]; T],
) {
    let halves = if HALVES { 2 } else { 1 };
    let quads = 8 / halves;
    let offset = -i32::from(offset(encoding));
    let k = tokens[0].high.len();
    assert_eq!(codes.len(), T * k, "each token has its codes");
    let mut out = [[_mm256_setzero_ps(); 2]; T];
    for g in 0..tokens[0].scales.len() {
        let mut acc = [[_mm256_setzero_ps(); 2]; T];
        for b in g * BLOCKS..(k / BLOCK).min((g + 1) * BLOCKS) {
            for half in 0..halves {
                // By four rows: sums of two pairs each.
                let mut sums = [[_mm256_setzero_si256(); 4]; T];
                for j in half * quads..(half + 1) * quads {
                    let quad = &w.codes[b].0[j];
                    for part in 0..4 {
                        // SAFETY: sixteen bytes of the quad, four codes of each token.
                        unsafe {
                            let rows = _mm256_cvtepu8_epi16(_mm_load_si128(quad.as_ptr().add(16 * part).cast()));
                            for (t, sums) in sums.iter_mut().enumerate() {
                                let at = codes.as_ptr().add(t * k + b * BLOCK + 4 * j).cast::<i64>();
                                let x = _mm256_set1_epi64x(at.read_unaligned());
                                sums[part] = _mm256_add_epi32(sums[part], _mm256_madd_epi16(rows, x));
                            }
                        }
                    }
                }
                for (t, token) in tokens.iter().enumerate() {
                    let total = if HALVES { token.halves[2 * b + half] } else { token.sums[b] };
                    for part in 0..2 {
                        let pairs = _mm256_hadd_epi32(sums[t][2 * part], sums[t][2 * part + 1]);
                        let sum = _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs);
                        let sum = _mm256_add_epi32(sum, _mm256_set1_epi32(total.wrapping_mul(offset)));
                        // SAFETY: eight numbers each.
                        unsafe {
                            let scale = _mm256_loadu_ps(w.scales[b][half].as_ptr().add(8 * part));
                            acc[t][part] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, acc[t][part]);
                            if MINIMUMS {
                                let minimum = _mm256_loadu_ps(w.minimums[b][half].as_ptr().add(8 * part));
                                acc[t][part] = _mm256_fmadd_ps(_mm256_set1_ps(total as f32), minimum, acc[t][part]);
                            }
                        }
                    }
                }
            }
        }
        for t in 0..T {
            let scale = _mm256_set1_ps(tokens[t].scales[g]);
            for part in 0..2 {
                out[t][part] = _mm256_fmadd_ps(acc[t][part], scale, out[t][part]);
            }
        }
    }
    for (out, y) in out.iter().zip(y) {
        for (part, out) in out.iter().enumerate() {
            // SAFETY: eight numbers.
            unsafe {
                _mm256_storeu_ps(y.as_mut_ptr().add(8 * part), _mm256_mul_ps(*out, _mm256_set1_ps(unit(encoding))))
            };
        }
    }
}
