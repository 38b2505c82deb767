//! The codes of a group in common form: `groups::unpack` with vectors.

use super::super::groups::GROUP;
use super::rows::load_two;
use std::arch::x86_64::*;
use tallow_format::Encoding;

/// Fills the codes of a group from its bytes: whole blocks of a block encoding, as many as a group
/// has or, at the end of a row, fewer.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn unpack_codes(encoding: Encoding, bytes: &[u8], codes: &mut [u8; GROUP]) {
    let codes = codes.as_chunks_mut::<32>().0;
    let fifteen = _mm256_set1_epi8(15);
    match encoding {
        Encoding::Q8 => {
            for (block, codes) in bytes.as_chunks::<34>().0.iter().zip(codes) {
                // A signed byte plus 128.
                let signed = load(block, 2);
                store(codes, _mm256_xor_si256(signed, _mm256_set1_epi8(-128)));
            }
        }
        Encoding::Q4 => {
            let shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
            for (block, codes) in bytes.as_chunks::<18>().0.iter().zip(codes) {
                let at = block.as_ptr().wrapping_add(2);
                // SAFETY: sixteen bytes of codes.
                let both = unsafe { load_two(at, at) };
                store(codes, _mm256_and_si256(_mm256_srlv_epi32(both, shifts), fifteen));
            }
        }
        Encoding::Q2K => {
            for (j, codes) in codes.iter_mut().enumerate() {
                store(codes, two_bits(bytes, 16, j));
            }
        }
        Encoding::Q3K => {
            let high = load(bytes, 0);
            for (j, codes) in codes.iter_mut().enumerate() {
                let top = bit(high, j, 2);
                store(codes, _mm256_or_si256(two_bits(bytes, 32, j), top));
            }
        }
        Encoding::Q4K => {
            for (j, codes) in codes.iter_mut().enumerate() {
                store(codes, nibble(load(bytes, 16 + j / 2 * 32), j % 2));
            }
        }
        Encoding::Q5K => {
            let high = load(bytes, 16);
            for (j, codes) in codes.iter_mut().enumerate() {
                let low = nibble(load(bytes, 48 + j / 2 * 32), j % 2);
                store(codes, _mm256_or_si256(low, bit(high, j, 4)));
            }
        }
        Encoding::Q6K => {
            for (j, codes) in codes.iter_mut().enumerate() {
                let (part, place) = (j / 4, j % 4);
                let low = nibble(load(bytes, part * 64 + place % 2 * 32), place / 2);
                // Bits `2·place` and the next move to 4 and 5.
                let high = load(bytes, 128 + part * 32);
                let high = _mm256_and_si256(shift(high, 4 - 2 * place as i32), _mm256_set1_epi8(0x30));
                store(codes, _mm256_or_si256(low, high));
            }
        }
        // Values without a shared scale have no groups: the callers check for block encodings.
        Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
    }
}

/// 32 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load(bytes: &[u8], at: usize) -> __m256i {
    let bytes = &bytes[at..at + 32];
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Stores 32 codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store(codes: &mut [u8; 32], v: __m256i) {
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), v) };
}

/// Bytes shifted left by up to 7 bits, or right by as many when negative. Bits from the next byte
/// come in: the caller masks them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn shift(v: __m256i, left: i32) -> __m256i {
    if left >= 0 { _mm256_sll_epi16(v, _mm_cvtsi32_si128(left)) } else { _mm256_srl_epi16(v, _mm_cvtsi32_si128(-left)) }
}

/// The low (0) or high (1) four bits of each byte.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibble(v: __m256i, high: usize) -> __m256i {
    _mm256_and_si256(shift(v, -4 * high as i32), _mm256_set1_epi8(15))
}

/// The two bits of block `j` in the codes from `at` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn two_bits(bytes: &[u8], at: usize, j: usize) -> __m256i {
    let v = load(bytes, at + j / 4 * 32);
    _mm256_and_si256(shift(v, -2 * (j % 4) as i32), _mm256_set1_epi8(3))
}

/// Bit `from` of each byte, moved to bit `to`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bit(v: __m256i, from: usize, to: usize) -> __m256i {
    let moved = shift(v, to as i32 - from as i32);
    _mm256_and_si256(moved, _mm256_set1_epi8(1 << to))
}
