//! AVX2: products of bytes, added in pairs of 16 bits.
#![allow(unsafe_code, reason = "vector loads and stores take pointers")]

use super::activations::{Quantized, Row};
use super::block::Unpacked;
use super::layout::{BLOCK, PANEL, QUAD, factor, has_halves, has_minimums, offset, unit};
use super::{Isa, Packed, Target};
use std::arch::x86_64::*;
use std::ops::Range;
use tallow_format::Encoding;

/// Tokens that run over an unpacked panel at once.
const TOKENS: usize = 2;

/// As [`super::product`].
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
) {
    assert!(Isa::best() >= Isa::Avx2, "the dispatcher chose this path for a machine with AVX2");
    for panel in panels {
        unpacked.fill(&w.layout, w.panel(panel), 0..x.k() / BLOCK, false);
        let rows = PANEL.min(w.rows() - panel * PANEL);
        let mut first = 0;
        while first < x.m() {
            let mut y = [[0.0; PANEL]; TOKENS];
            let count = TOKENS.min(x.m() - first);
            // SAFETY: the features were found, and the panel has been unpacked for rows of this length.
            unsafe {
                if count == TOKENS {
                    any::<TOKENS>(w.encoding(), [x.row(first), x.row(first + 1)], unpacked, &mut y);
                } else {
                    let [y, _] = &mut y;
                    any::<1>(w.encoding(), [x.row(first)], unpacked, std::array::from_mut(y));
                }
            }
            for (i, y) in y.iter_mut().enumerate().take(count) {
                target.put(first + i, panel * PANEL, &mut y[..rows]);
            }
            first += count;
        }
    }
}

/// [`tile`] for an encoding.
///
/// # Safety
/// As there.
unsafe fn any<const T: usize>(encoding: Encoding, tokens: [Row<'_>; T], w: &Unpacked, y: &mut [[f32; PANEL]; T]) {
    // SAFETY: the caller's promise.
    unsafe {
        match (has_halves(encoding), has_minimums(encoding)) {
            (false, false) => tile::<T, false, false>(encoding, tokens, w, y),
            (false, true) => tile::<T, false, true>(encoding, tokens, w, y),
            (true, false) => tile::<T, true, false>(encoding, tokens, w, y),
            (true, true) => tile::<T, true, true>(encoding, tokens, w, y),
        }
    }
}

/// The outputs of `T` tokens with one unpacked panel of codes with their offset.
///
/// The instruction for bytes takes one operand without sign and saturates sums of two products. So 128 is taken from the
/// codes that meet high bytes, and their magnitude multiplied by the high byte with their sign: 128 · 127 · 2 and what the
/// low bytes add stay below 2¹⁵, since codes of the low bytes are at most 16, and 0 beside the one code of −128.
///
/// # Safety
/// The machine has the features and the panel the blocks of the rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<const T: usize, const HALVES: bool, const MINIMUMS: bool>(
    encoding: Encoding,
    tokens: [Row<'_>; T],
    w: &Unpacked,
    y: &mut [[f32; PANEL]; T],
) {
    let halves = if HALVES { 2 } else { 1 };
    // Codes lack `128 - offset` beside high bytes and have `offset / 16` too much beside low ones.
    let offset = i32::from(offset(encoding)) * i32::from(factor(encoding)) / 16;
    let blocks = tokens[0].scales.len();
    let ones = _mm256_set1_epi16(1);
    let mut out = [[_mm256_setzero_ps(); 2]; T];
    for b in 0..blocks {
        for half in 0..halves {
            let of_half = |of: [i32; 2]| if HALVES { of[half] } else { of[0] + of[1] };
            let totals: [i32; T] = std::array::from_fn(|t| of_half(tokens[t].sums[b]));
            let mut sums: [[__m256i; 2]; T] = std::array::from_fn(|t| {
                [_mm256_set1_epi32((8 - offset) * totals[t] - 8 * of_half(tokens[t].lows[b])); 2]
            });
            let parts = if HALVES { half..half + 1 } else { 0..2 };
            for part in parts {
                let [highs, lows] = &w.codes[b].0[part];
                for (j, (above, below)) in highs.iter().zip(lows).enumerate() {
                    for rows in 0..2 {
                        // SAFETY: 32 bytes of each quad, four codes of each token.
                        unsafe {
                            let load = |quad: &[u8; QUAD]| _mm256_load_si256(quad.as_ptr().add(32 * rows).cast());
                            let codes = _mm256_xor_si256(load(above), _mm256_set1_epi8(i8::MIN));
                            let (size, below) = (_mm256_abs_epi8(codes), load(below));
                            for (t, sums) in sums.iter_mut().enumerate() {
                                let of = |plane: usize| {
                                    let codes = tokens[t].codes.as_ptr().add(b).cast::<i8>();
                                    let at = codes.add(part * BLOCK + plane * (BLOCK / 2) + j * 4);
                                    _mm256_set1_epi32(at.cast::<i32>().read_unaligned())
                                };
                                let high = _mm256_maddubs_epi16(size, _mm256_sign_epi8(of(0), codes));
                                let pairs = _mm256_add_epi16(high, _mm256_maddubs_epi16(below, of(1)));
                                sums[rows] = _mm256_add_epi32(sums[rows], _mm256_madd_epi16(pairs, ones));
                            }
                        }
                    }
                }
            }
            for (t, token) in tokens.iter().enumerate() {
                let dx = _mm256_set1_ps(token.scales[b]);
                for (rows, &sum) in sums[t].iter().enumerate() {
                    // SAFETY: eight numbers each.
                    unsafe {
                        let scale = _mm256_mul_ps(_mm256_loadu_ps(w.scales[b][half].as_ptr().add(8 * rows)), dx);
                        out[t][rows] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, out[t][rows]);
                        if MINIMUMS {
                            let minimum = _mm256_loadu_ps(w.minimums[b][half].as_ptr().add(8 * rows));
                            let weight = _mm256_set1_ps(totals[t] as f32 * token.scales[b]);
                            out[t][rows] = _mm256_fmadd_ps(minimum, weight, out[t][rows]);
                        }
                    }
                }
            }
        }
    }
    for (out, y) in out.iter().zip(y) {
        for (rows, out) in out.iter().enumerate() {
            // SAFETY: eight numbers.
            unsafe {
                _mm256_storeu_ps(y.as_mut_ptr().add(8 * rows), _mm256_mul_ps(*out, _mm256_set1_ps(unit(encoding))))
            };
        }
    }
}
