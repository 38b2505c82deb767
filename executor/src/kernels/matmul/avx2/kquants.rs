//! One super-block of a K-quant with the activations of its group.

use super::super::activations::Part;
use super::reduce::sums_i32;
use super::rows::{add_terms, block_sums, dot, load_sums, load_two};
use std::arch::x86_64::*;

/// `d`, `dmin`, `scales[12]`, `codes[128]`: 32 bytes hold two consecutive blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q4k(w: &[u8; 144], x: Part<'_>, acc: __m256) -> __m256 {
    let mask = _mm256_set1_epi8(15);
    let mut products = [_mm256_setzero_si256(); 4];
    for i in 0..2 {
        for half in 0..2 {
            let at = w.as_ptr().wrapping_add(16 + i * 32 + half * 16);
            // SAFETY: blocks `2i`, `2i + 1`, and those four after, of 128 bytes of codes.
            let w = unsafe { load_two(at, at.add(64)) };
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask);
            let even = dot(_mm256_and_si256(w, mask), x, 2 * i, half);
            let odd = dot(high, x, 2 * i + 1, half);
            products[2 * i] = _mm256_add_epi32(products[2 * i], even);
            products[2 * i + 1] = _mm256_add_epi32(products[2 * i + 1], odd);
        }
    }
    with_minimums(w, sums_i32(products), x, acc)
}

/// `d`, `dmin`, `scales[12]`, `high bits[32]`, `codes[128]`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q5k(w: &[u8; 176], x: Part<'_>, acc: __m256) -> __m256 {
    let mask = _mm256_set1_epi8(15);
    let top = _mm256_set1_epi8(16);
    let shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    let mut products = [_mm256_setzero_si256(); 4];
    for half in 0..2 {
        // Bit `j` of a byte belongs to block `j`. The high lane is moved down by 4, so that bit
        // `j` belongs to `j + 4` there. What shifts by more than a byte let in, masks drop.
        // SAFETY: 16 of 32 bytes of high bits.
        let bits = unsafe { _mm_loadu_si128(w.as_ptr().wrapping_add(16 + half * 16).cast()) };
        let bits = _mm256_srlv_epi32(_mm256_broadcastsi128_si256(bits), shifts);
        let tops = [
            _mm256_slli_epi16::<4>(bits),
            _mm256_slli_epi16::<3>(bits),
            _mm256_slli_epi16::<2>(bits),
            _mm256_slli_epi16::<1>(bits),
        ];
        for i in 0..2 {
            let at = w.as_ptr().wrapping_add(48 + i * 32 + half * 16);
            // SAFETY: blocks `2i`, `2i + 1`, and those four after, of 128 bytes of codes.
            let w = unsafe { load_two(at, at.add(64)) };
            let even = _mm256_and_si256(w, mask);
            let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask);
            for (j, low) in [(2 * i, even), (2 * i + 1, odd)] {
                let codes = _mm256_or_si256(low, _mm256_and_si256(tops[j], top));
                products[j] = _mm256_add_epi32(products[j], dot(codes, x, j, half));
            }
        }
    }
    with_minimums(w, sums_i32(products), x, acc)
}

/// Adds the terms of a `q4k` or `q5k` super-block, which both begin with `d`, `dmin` and twelve
/// bytes of 6-bit scales and minimums, to the lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_minimums(head: &[u8], products: __m256i, x: Part<'_>, acc: __m256) -> __m256 {
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (low, middle, high) = (word(4), word(8), word(12));
    const SIX: u32 = 0x3f3f_3f3f;
    const FOUR: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x0303_0303;
    let scales = widen(low & SIX, (high & FOUR) | (low >> 6 & TWO) << 4);
    let minimums = widen(middle & SIX, (high >> 4 & FOUR) | (middle >> 6 & TWO) << 4);
    let products = _mm256_cvtepi32_ps(_mm256_mullo_epi32(products, scales));
    let minimums = _mm256_cvtepi32_ps(_mm256_mullo_epi32(minimums, block_sums(x)));
    let d = _mm256_set1_ps(half_at(head, 0));
    let dmin = _mm256_set1_ps(half_at(head, 2));
    let terms = _mm256_sub_ps(_mm256_mul_ps(d, products), _mm256_mul_ps(dmin, minimums));
    add_terms(x, terms, acc)
}

/// Eight bytes as eight 32-bit integers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen(first: u32, second: u32) -> __m256i {
    let bytes = u64::from(first) | u64::from(second) << 32;
    _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes as i64))
}

/// The half-precision number at `at`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn half_at(bytes: &[u8], at: usize) -> f32 {
    let bits = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())))
}

/// `low bits[128]`, `high bits[64]`, `scales[16]`, `d`: each half of the arrays holds four blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q6k(w: &[u8; 210], x: Part<'_>, acc: __m256) -> __m256 {
    let mask = _mm256_set1_epi8(15);
    let top = _mm256_set1_epi8(0x30);
    // SAFETY: sixteen bytes of sub-scales.
    let factors = unsafe { _mm_loadu_si128(w.as_ptr().wrapping_add(192).cast()) };
    let factors = by_half(_mm256_cvtepi8_epi16(factors));
    let mut products = _mm256_setzero_si256();
    for (half, factors) in factors.into_iter().enumerate() {
        let at = w.as_ptr().wrapping_add(half * 16);
        // SAFETY: the same half of four blocks and the four after.
        let (first, second, high) =
            unsafe { (load_two(at, at.add(64)), load_two(at.add(32), at.add(96)), load_two(at.add(128), at.add(160))) };
        let codes = [
            (first, _mm256_slli_epi16::<4>(high)),
            (second, _mm256_slli_epi16::<2>(high)),
            (_mm256_srli_epi16::<4>(first), high),
            (_mm256_srli_epi16::<4>(second), _mm256_srli_epi16::<2>(high)),
        ];
        let mut dots = [_mm256_setzero_si256(); 4];
        for (j, (low, high)) in codes.into_iter().enumerate() {
            let codes = _mm256_or_si256(_mm256_and_si256(low, mask), _mm256_and_si256(high, top));
            dots[j] = dot(codes, x, j, half);
        }
        // Codes are stored with 32 added.
        let offsets = _mm256_slli_epi32::<5>(load_sums(x, half));
        let sums = _mm256_sub_epi32(sums_i32(dots), offsets);
        products = _mm256_add_epi32(products, _mm256_mullo_epi32(factors, sums));
    }
    let d = _mm256_set1_ps(half_at(w, 208));
    add_terms(x, _mm256_mul_ps(d, _mm256_cvtepi32_ps(products)), acc)
}

/// Of sixteen 16-bit numbers, one per half block, those of the first halves and of the second, in
/// 32 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn by_half(v: __m256i) -> [__m256i; 2] {
    [_mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(v)), _mm256_srai_epi32::<16>(v)]
}

/// `scales[16]`, `codes[64]`, `d`, `dmin`: 32 bytes hold four consecutive blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q2k(w: &[u8; 84], x: Part<'_>, acc: __m256) -> __m256 {
    // SAFETY: sixteen bytes of sub-scales and minimums.
    let both = _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(w.as_ptr().cast()) });
    let factors = by_half(_mm256_and_si256(both, _mm256_set1_epi16(15)));
    let lowest = by_half(_mm256_srli_epi16::<4>(both));
    let (mut products, mut minimums) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for half in 0..2 {
        let at = w.as_ptr().wrapping_add(16 + half * 16);
        // SAFETY: the same half of four blocks and the four after.
        let codes = two_bits(unsafe { load_two(at, at.add(32)) });
        let mut dots = [_mm256_setzero_si256(); 4];
        for (j, codes) in codes.into_iter().enumerate() {
            dots[j] = dot(codes, x, j, half);
        }
        products = _mm256_add_epi32(products, _mm256_mullo_epi32(factors[half], sums_i32(dots)));
        minimums = _mm256_add_epi32(minimums, _mm256_mullo_epi32(lowest[half], load_sums(x, half)));
    }
    let products = _mm256_cvtepi32_ps(products);
    let d = _mm256_set1_ps(half_at(w, 80));
    let dmin = _mm256_set1_ps(half_at(w, 82));
    let minimums = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(minimums));
    add_terms(x, _mm256_sub_ps(_mm256_mul_ps(d, products), minimums), acc)
}

/// `high bits[32]`, `codes[64]`, `scales[12]`, `d`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q3k(w: &[u8; 110], x: Part<'_>, acc: __m256) -> __m256 {
    let word = |at: usize| u32::from_le_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]]);
    let (low, high, tops) = (word(96), word(100), word(104));
    const FOUR: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x0303_0303;
    let factors = _mm_setr_epi32(
        ((low & FOUR) | (tops & TWO) << 4) as i32,
        ((high & FOUR) | (tops >> 2 & TWO) << 4) as i32,
        ((low >> 4 & FOUR) | (tops >> 4 & TWO) << 4) as i32,
        ((high >> 4 & FOUR) | (tops >> 6 & TWO) << 4) as i32,
    );
    let factors = by_half(_mm256_cvtepi8_epi16(_mm_sub_epi8(factors, _mm_set1_epi8(32))));
    let top = _mm256_set1_epi8(4);
    let shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    let mut products = _mm256_setzero_si256();
    for (half, factors) in factors.into_iter().enumerate() {
        let at = w.as_ptr().wrapping_add(half * 16);
        // SAFETY: half of the high bits, and the same half of four blocks and the four after.
        let (bits, codes) = unsafe { (load_two(at, at), load_two(at.add(32), at.add(64))) };
        // Bit `j` belongs to block `j` in the low lane and, moved down by 4, to `j + 4` in the high.
        let bits = _mm256_srlv_epi32(bits, shifts);
        let tops = [_mm256_slli_epi16::<2>(bits), _mm256_slli_epi16::<1>(bits), bits, _mm256_srli_epi16::<1>(bits)];
        let mut dots = [_mm256_setzero_si256(); 4];
        for (j, (low, high)) in two_bits(codes).into_iter().zip(tops).enumerate() {
            dots[j] = dot(_mm256_or_si256(low, _mm256_and_si256(high, top)), x, j, half);
        }
        // Codes are stored with 4 added.
        let offsets = _mm256_slli_epi32::<2>(load_sums(x, half));
        let sums = _mm256_sub_epi32(sums_i32(dots), offsets);
        products = _mm256_add_epi32(products, _mm256_mullo_epi32(factors, sums));
    }
    let d = _mm256_set1_ps(half_at(w, 108));
    add_terms(x, _mm256_mul_ps(d, _mm256_cvtepi32_ps(products)), acc)
}

/// The four codes of two bits in each byte.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn two_bits(v: __m256i) -> [__m256i; 4] {
    let mask = _mm256_set1_epi8(3);
    [
        _mm256_and_si256(v, mask),
        _mm256_and_si256(_mm256_srli_epi16::<2>(v), mask),
        _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask),
        _mm256_and_si256(_mm256_srli_epi16::<6>(v), mask),
    ]
}
