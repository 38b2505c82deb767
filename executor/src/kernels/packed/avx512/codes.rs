//! Codes and scales of packed panels in registers.

use super::super::layout::{GROUP, HEAD, PANEL, QUAD, factor};
use std::arch::x86_64::*;
use tallow_format::Encoding;

/// Encodings as parameters of functions.
pub(super) const Q8: u8 = 0;
pub(super) const Q4: u8 = 1;
pub(super) const Q2K: u8 = 2;
pub(super) const Q3K: u8 = 3;
pub(super) const Q4K: u8 = 4;
pub(super) const Q5K: u8 = 5;
pub(super) const Q6K: u8 = 6;

/// The encoding of a parameter.
pub(super) const fn encoding_of(e: u8) -> Encoding {
    match e {
        Q8 => Encoding::Q8,
        Q4 => Encoding::Q4,
        Q2K => Encoding::Q2K,
        Q3K => Encoding::Q3K,
        Q4K => Encoding::Q4K,
        Q5K => Encoding::Q5K,
        _ => Encoding::Q6K,
    }
}

/// The scales of a super-block: `d` and `dmin` of the rows.
pub(super) struct Head {
    d: __m512,
    dmin: __m512,
}

impl Head {
    /// # Safety
    /// A head is readable there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    pub(super) unsafe fn load<const E: u8>(at: *const u8) -> Self {
        if E == Q8 || E == Q4 {
            return Self { d: _mm512_setzero_ps(), dmin: _mm512_setzero_ps() };
        }
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                d: _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())),
                dmin: _mm512_cvtph_ps(_mm256_loadu_si256(at.add(32).cast())),
            }
        }
    }
}

/// Codes times [`factor`], over 16, rounded to nearest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn sixteenth<const E: u8>(codes: __m512i) -> __m512i {
    let half = |v: __m512i| _mm512_avg_epu8(v, _mm512_setzero_si512());
    match E {
        Q8 => half(_mm512_and_si512(_mm512_srli_epi16::<3>(codes), _mm512_set1_epi8(31))),
        Q6K => half(_mm512_and_si512(_mm512_srli_epi16::<1>(codes), _mm512_set1_epi8(127))),
        Q5K => half(codes),
        _ => codes,
    }
}

/// Bytes of the codes of a block.
pub(super) const fn block_bytes(e: u8) -> usize {
    QUAD * match e {
        Q8 => 8,
        Q2K => 2,
        Q3K => 3,
        Q5K => 5,
        Q6K => 6,
        _ => 4,
    }
}

/// Asks for memory that is read soon.
#[inline(always)]
pub(super) fn ask(at: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(QUAD) {
        // SAFETY: a hint, which touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast()) };
    }
}

/// The codes of a block, without sign.
///
/// # Safety
/// The codes of the block are readable there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn quads<const E: u8>(at: *const u8) -> [__m512i; 8] {
    // SAFETY: the caller's promise.
    let load = |i: usize| unsafe { _mm512_loadu_si512(at.add(i * QUAD).cast()) };
    let low_nibbles = _mm512_set1_epi8(15);
    let mask = |v: __m512i, bits: i8| _mm512_and_si512(v, _mm512_set1_epi8(bits));
    let mut quads = [_mm512_setzero_si512(); 8];
    if E == Q8 {
        for (i, quad) in quads.iter_mut().enumerate() {
            *quad = load(i);
        }
        return quads;
    }
    if E != Q2K && E != Q3K {
        for i in 0..4 {
            let both = load(i);
            quads[i] = _mm512_and_si512(both, low_nibbles);
            quads[i + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low_nibbles);
        }
    }
    // `a | b & c`.
    const JOIN: i32 = 0b1111_1000;
    let join = |a: __m512i, b: __m512i, c: i8| _mm512_ternarylogic_epi32::<JOIN>(a, b, _mm512_set1_epi8(c));
    match E {
        Q5K => {
            let bits = load(4);
            quads[0] = join(quads[0], _mm512_slli_epi16::<4>(bits), 16);
            quads[1] = join(quads[1], _mm512_slli_epi16::<3>(bits), 16);
            quads[2] = join(quads[2], _mm512_slli_epi16::<2>(bits), 16);
            quads[3] = join(quads[3], _mm512_slli_epi16::<1>(bits), 16);
            quads[4] = join(quads[4], bits, 16);
            quads[5] = join(quads[5], _mm512_srli_epi16::<1>(bits), 16);
            quads[6] = join(quads[6], _mm512_srli_epi16::<2>(bits), 16);
            quads[7] = join(quads[7], _mm512_srli_epi16::<3>(bits), 16);
        }
        Q6K => {
            for half in 0..2 {
                let pairs = load(4 + half);
                let quads = &mut quads[4 * half..4 * half + 4];
                quads[0] = join(quads[0], _mm512_slli_epi16::<4>(pairs), 0x30);
                quads[1] = join(quads[1], _mm512_slli_epi16::<2>(pairs), 0x30);
                quads[2] = join(quads[2], pairs, 0x30);
                quads[3] = join(quads[3], _mm512_srli_epi16::<2>(pairs), 0x30);
            }
        }
        Q2K | Q3K => {
            for half in 0..2 {
                let pairs = load(half);
                let quads = &mut quads[4 * half..4 * half + 4];
                quads[0] = mask(pairs, 3);
                quads[1] = mask(_mm512_srli_epi16::<2>(pairs), 3);
                quads[2] = mask(_mm512_srli_epi16::<4>(pairs), 3);
                quads[3] = mask(_mm512_srli_epi16::<6>(pairs), 3);
            }
            if E == Q3K {
                let bits = load(2);
                quads[0] = join(quads[0], _mm512_slli_epi16::<2>(bits), 4);
                quads[1] = join(quads[1], _mm512_slli_epi16::<1>(bits), 4);
                quads[2] = join(quads[2], bits, 4);
                quads[3] = join(quads[3], _mm512_srli_epi16::<1>(bits), 4);
                quads[4] = join(quads[4], _mm512_srli_epi16::<2>(bits), 4);
                quads[5] = join(quads[5], _mm512_srli_epi16::<3>(bits), 4);
                quads[6] = join(quads[6], _mm512_srli_epi16::<4>(bits), 4);
                quads[7] = join(quads[7], _mm512_srli_epi16::<5>(bits), 4);
            }
        }
        _ => {}
    }
    quads
}

/// Scale, and negated minimum over 16 / [`factor`], of a half (or of the whole) of block `j` of a group.
///
/// # Safety
/// The head of the block (`q8`, `q4`) or of its super-block is readable there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn scales<const E: u8>(at: *const u8, head: &Head, j: usize, half: usize) -> (__m512, __m512) {
    let zero = _mm512_setzero_ps();
    // SAFETY: the caller's promise; the indices lie inside a head.
    unsafe {
        let small = |index: usize| _mm_loadu_si128(at.add(64 + index * PANEL).cast());
        let unsigned = |bytes: __m128i| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
        let negated = |v: __m512| _mm512_sub_ps(_mm512_set1_ps(-0.0), v);
        const { assert!(HEAD == 64 + 16 * PANEL && GROUP == 256) }
        match E {
            Q8 | Q4 => {
                let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
                (_mm512_cvtepi32_ps(words), zero)
            }
            Q4K | Q5K => {
                let minimum = _mm512_mul_ps(head.dmin, unsigned(small(8 + j)));
                let part = _mm512_set1_ps(f32::from(factor(encoding_of(E))) * -0.0625);
                (_mm512_mul_ps(head.d, unsigned(small(j))), _mm512_mul_ps(minimum, part))
            }
            Q2K => {
                let both = small(2 * j + half);
                let scale = unsigned(_mm_and_si128(both, _mm_set1_epi8(15)));
                let minimum = unsigned(_mm_and_si128(_mm_srli_epi16::<4>(both), _mm_set1_epi8(15)));
                (_mm512_mul_ps(head.d, scale), negated(_mm512_mul_ps(head.dmin, minimum)))
            }
            _ => {
                let scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(small(2 * j + half)));
                (_mm512_mul_ps(head.d, scale), zero)
            }
        }
    }
}
