//! AVX2 with FMA and F16C: two registers of eight.

use super::{Lanes, WIDTH};
use half::f16;
use std::arch::x86_64::*;

/// Sixteen numbers in two registers.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2(__m256, __m256);

/// Applies an intrinsic to both halves.
macro_rules! both {
    ($f:ident, $a:expr) => {{
        // SAFETY: the caller promises the instruction set.
        unsafe { Avx2($f($a.0), $f($a.1)) }
    }};
    ($f:ident, $a:expr, $b:expr) => {{
        // SAFETY: as above.
        unsafe { Avx2($f($a.0, $b.0), $f($a.1, $b.1)) }
    }};
}

impl Lanes for Avx2 {
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller promises the instruction set, here and below.
        let x = unsafe { _mm256_set1_ps(x) };
        Self(x, x)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises sixteen elements, here and below.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as above.
        unsafe {
            Self(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())), _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: as above.
        unsafe {
            let all = _mm_loadu_si128(from.cast());
            Self(
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(all))),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        both!(_mm256_add_ps, self, other)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        both!(_mm256_sub_ps, self, other)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        both!(_mm256_mul_ps, self, other)
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        both!(_mm256_div_ps, self, other)
    }

    #[inline(always)]
    unsafe fn mul_add(self, by: Self, to: Self) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_fmadd_ps(self.0, by.0, to.0), _mm256_fmadd_ps(self.1, by.1, to.1)) }
    }

    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        both!(_mm256_max_ps, self, other)
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        both!(_mm256_min_ps, self, other)
    }

    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: as above.
        let sign = unsafe { Self::splat(-0.0) };
        both!(_mm256_andnot_ps, sign, self)
    }

    #[inline(always)]
    unsafe fn copysign(self, other: Self) -> Self {
        // SAFETY: as above.
        let (size, sign) = unsafe { (self.abs(), Self::splat(-0.0)) };
        let sign = both!(_mm256_and_ps, sign, other);
        both!(_mm256_or_ps, size, sign)
    }

    #[inline(always)]
    unsafe fn less(self, other: Self, yes: Self, no: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let first = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0);
            let second = _mm256_cmp_ps::<_CMP_LT_OQ>(self.1, other.1);
            Self(_mm256_blendv_ps(no.0, yes.0, first), _mm256_blendv_ps(no.1, yes.1, second))
        }
    }

    #[inline(always)]
    unsafe fn scale_by_power(self, n: Self) -> Self {
        // SAFETY: as above.
        unsafe { Self(scale(self.0, n.0), scale(self.1, n.1)) }
    }

    #[inline(always)]
    unsafe fn keep(self, from: usize, to: usize, other: Self) -> Self {
        let mut mask = [0_i32; WIDTH];
        mask[from.min(WIDTH)..to.clamp(from.min(WIDTH), WIDTH)].fill(-1);
        // SAFETY: as above; sixteen elements.
        unsafe {
            let mask = mask.as_ptr().cast();
            Self(
                _mm256_blendv_ps(other.0, self.0, _mm256_loadu_ps(mask)),
                _mm256_blendv_ps(other.1, self.1, _mm256_loadu_ps(mask.add(8))),
            )
        }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as above.
        unsafe { sum(_mm256_add_ps(self.0, self.1)) }
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as above.
        unsafe { largest(_mm256_max_ps(self.0, self.1)) }
    }

    #[inline(always)]
    unsafe fn prefetch<T>(at: *const T) {
        // SAFETY: any address may be asked for.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
}

/// The sum of eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sum(x: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// The largest of eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn largest(x: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}

/// `x · 2ⁿ` in two factors, since 2ⁿ itself may be subnormal or out of range; the first is exact.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale(x: __m256, n: __m256) -> __m256 {
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let rest = _mm256_sub_epi32(n, half);
    let bias = _mm256_set1_epi32(127);
    let first = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
    let second = _mm256_slli_epi32::<23>(_mm256_add_epi32(rest, bias));
    _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second))
}
