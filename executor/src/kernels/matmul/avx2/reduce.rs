//! Sums across vectors, in the orders that the portable form defines.

use std::arch::x86_64::*;

/// The low and the high half of a vector added, then its quarters, then its two elements: the
/// order of `add_lanes`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_lanes(v: __m256) -> f32 {
    let halves = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let quarters = _mm_add_ps(halves, _mm_movehl_ps(halves, halves));
    let sum = _mm_add_ss(quarters, _mm_shuffle_ps::<1>(quarters, quarters));
    _mm_cvtss_f32(sum)
}

/// The sums of the eight 128-bit lanes of four vectors of 32-bit integers: of the low lanes, then
/// of the high lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sums_i32(v: [__m256i; 4]) -> __m256i {
    let [a, b, c, d] = v;
    quads_i32(pairs_i32(a, b), pairs_i32(c, d))
}

/// `a, b` interleaved by 32 bits, and the halves of each 128-bit lane added.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn pairs_i32(a: __m256i, b: __m256i) -> __m256i {
    _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b))
}

/// As [`pairs_i32`], interleaved by 64 bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn quads_i32(ab: __m256i, cd: __m256i) -> __m256i {
    _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd))
}
