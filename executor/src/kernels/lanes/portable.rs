//! Plain arrays: the form that the others are held to.

use super::{Lanes, WIDTH};
use half::f16;

/// Sixteen numbers in an array.
#[derive(Clone, Copy)]
pub(in super::super) struct Portable([f32; WIDTH]);

impl Portable {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

/// `2ⁿ` for an exponent of a normal number.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

impl Lanes for Portable {
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; WIDTH])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise, here and below.
        Self(unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: as above.
        Self(unsafe { from.cast::<[f16; WIDTH]>().read_unaligned() }.map(f16::to_f32))
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: as above.
        Self(unsafe { from.cast::<[i8; WIDTH]>().read_unaligned() }.map(f32::from))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.with(other, |a, b| a / b)
    }

    #[inline(always)]
    unsafe fn mul_add(self, by: Self, to: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add(by.0[i], to.0[i])))
    }

    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        self.with(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        self.with(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    unsafe fn abs(self) -> Self {
        Self(self.0.map(f32::abs))
    }

    #[inline(always)]
    unsafe fn copysign(self, other: Self) -> Self {
        self.with(other, f32::copysign)
    }

    #[inline(always)]
    unsafe fn less(self, other: Self, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < other.0[i] { yes.0[i] } else { no.0[i] }))
    }

    #[inline(always)]
    unsafe fn scale_by_power(self, n: Self) -> Self {
        self.with(n, |x, n| {
            // Two factors, since 2ⁿ itself may be subnormal or out of range; the first is exact.
            let n = n as i32;
            x * power_of_two(n >> 1) * power_of_two(n - (n >> 1))
        })
    }

    #[inline(always)]
    unsafe fn keep(self, from: usize, to: usize, other: Self) -> Self {
        Self(std::array::from_fn(|i| if (from..to).contains(&i) { self.0[i] } else { other.0[i] }))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        fold(self.0, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        fold(self.0, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn prefetch<T>(_: *const T) {}
}

/// Joins lanes `i` and `i + 8`, then `i + 4`, `i + 2` and `i + 1`.
#[inline(always)]
fn fold(mut lanes: [f32; WIDTH], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}
