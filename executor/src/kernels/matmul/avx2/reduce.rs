//! Sums across vectors, in the order that the portable form defines.

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
