//! AVX-512 (F and DQ): one register.

use super::{Lanes, WIDTH, avx2};
use half::f16;
use std::arch::x86_64::*;

/// Sixteen numbers in a register.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(__m512);

impl Lanes for Avx512 {
    const MANY: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller promises the instruction set, here and below.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises sixteen elements, here and below.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul_add(self, by: Self, to: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_fmadd_ps(self.0, by.0, to.0) })
    }

    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_min_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_abs_ps(self.0) })
    }

    #[inline(always)]
    unsafe fn copysign(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let sign = _mm512_and_ps(_mm512_set1_ps(-0.0), other.0);
            Self(_mm512_or_ps(_mm512_abs_ps(self.0), sign))
        }
    }

    #[inline(always)]
    unsafe fn less(self, other: Self, yes: Self, no: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0);
            Self(_mm512_mask_blend_ps(less, no.0, yes.0))
        }
    }

    #[inline(always)]
    unsafe fn scale_by_power(self, n: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_scalef_ps(self.0, n.0) })
    }

    #[inline(always)]
    unsafe fn keep(self, from: usize, to: usize, other: Self) -> Self {
        let below = |n: usize| (1_u32 << n.min(WIDTH)) - 1;
        let mask = below(to) & !below(from);
        // SAFETY: as above.
        Self(unsafe { _mm512_mask_blend_ps(mask as __mmask16, other.0, self.0) })
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as above.
        unsafe {
            let high = _mm512_extractf32x8_ps::<1>(self.0);
            avx2::sum(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
        }
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as above.
        unsafe {
            let high = _mm512_extractf32x8_ps::<1>(self.0);
            avx2::largest(_mm256_max_ps(_mm512_castps512_ps256(self.0), high))
        }
    }

    #[inline(always)]
    unsafe fn prefetch<T>(at: *const T) {
        // SAFETY: any address may be asked for.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
}
