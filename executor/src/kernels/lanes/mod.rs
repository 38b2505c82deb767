//! Sixteen numbers that are computed together, in one form for each instruction set.
//!
//! A kernel that is written over [`Lanes`] gives the same bits in each form: every operation is one
//! IEEE operation per lane, and [`Lanes::sum`] adds the lanes in one order. Functions over it are
//! inlined into a function that is compiled for the instruction set.
#![allow(unsafe_code, reason = "vector instructions need an instruction set and take pointers")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
use half::f16;
pub(super) use portable::Portable;

/// Numbers of a [`Lanes`].
pub(super) const WIDTH: usize = 16;

/// Sixteen `f32`.
///
/// # Safety
/// All functions: the instruction set of the form must be there, and pointers must be good for
/// sixteen elements (of any alignment).
pub(super) trait Lanes: Copy {
    /// Whether thirty-two of these fit in the registers, or eight.
    const MANY: bool;
    /// `x` in each lane.
    unsafe fn splat(x: f32) -> Self;
    /// Reads.
    unsafe fn load(from: *const f32) -> Self;
    /// Reads half precision.
    unsafe fn load_f16(from: *const f16) -> Self;
    /// Reads integers.
    unsafe fn load_i8(from: *const i8) -> Self;
    /// Writes.
    unsafe fn store(self, to: *mut f32);
    /// The sum.
    unsafe fn add(self, other: Self) -> Self;
    /// The difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// The product.
    unsafe fn mul(self, other: Self) -> Self;
    /// The quotient.
    unsafe fn div(self, other: Self) -> Self;
    /// `self · by + to`, rounded once.
    unsafe fn mul_add(self, by: Self, to: Self) -> Self;
    /// `self` where it is greater than `other`, else `other`: a NaN in `self` gives `other`.
    unsafe fn larger(self, other: Self) -> Self;
    /// `self` where it is less than `other`, else `other`.
    unsafe fn smaller(self, other: Self) -> Self;
    /// Without signs.
    unsafe fn abs(self) -> Self;
    /// With the signs of `other`.
    unsafe fn copysign(self, other: Self) -> Self;
    /// `yes` in the lanes in which `self` is less than `other`, else `no`.
    unsafe fn less(self, other: Self, yes: Self, no: Self) -> Self;
    /// `self · 2ⁿ` for whole numbers `n` from −160 to 130, rounded once.
    unsafe fn scale_by_power(self, n: Self) -> Self;
    /// The lanes `from..to`, and `other` in the rest.
    unsafe fn keep(self, from: usize, to: usize, other: Self) -> Self;

    /// The lanes.
    #[inline(always)]
    unsafe fn array(self) -> [f32; WIDTH] {
        let mut out = [0.0; WIDTH];
        // SAFETY: sixteen elements; the instruction set is the caller's promise.
        unsafe { self.store(out.as_mut_ptr()) };
        out
    }

    /// The sum of the lanes: `i` and `i + 8`, then `i + 4`, `i + 2` and `i + 1`.
    unsafe fn sum(self) -> f32;
    /// The largest of the lanes, where none is NaN, compared in the same order.
    unsafe fn largest(self) -> f32;
    /// Asks for the cache line at an address, which may be any, in the second-level cache.
    unsafe fn prefetch<T>(at: *const T);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Vec<[f32; WIDTH]> {
        let odd =
            [0.0, -0.0, 1.0, -1.5, 1e-40, -1e-44, 3e38, -3e38, 65504.0, 65520.0, 6e-8, 2e-8, 0.1, -7.3, 1e-5, 88.0];
        let mut state = 1_u32;
        let mut all = vec![odd];
        for _ in 0..200 {
            all.push(std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let x = f32::from_bits(state);
                if x.is_finite() { x } else { 1.25 }
            }));
        }
        all
    }

    /// The bits of everything that the trait does with some numbers.
    unsafe fn all<V: Lanes>() -> Vec<u32> {
        let mut out = Vec::new();
        for pair in numbers().windows(3) {
            // SAFETY: the caller's promise; arrays of sixteen.
            unsafe {
                let [a, b, c] = [0, 1, 2].map(|i| V::load(pair[i].as_ptr()));
                let powers: [f32; WIDTH] = std::array::from_fn(|i| (i as f32 - 8.0) * 16.0);
                let powers = V::load(powers.as_ptr());
                let near = V::splat(1.3).copysign(a);
                for x in [
                    a.add(b),
                    a.sub(b),
                    a.mul(b),
                    a.div(b),
                    a.mul_add(b, c),
                    a.larger(b),
                    a.smaller(b),
                    a.abs(),
                    a.copysign(b),
                    a.less(b, c, a),
                    near.scale_by_power(powers),
                    V::splat(1.414).scale_by_power(V::splat(-149.0)),
                    a.keep(3, 11, b),
                    V::splat(a.sum()),
                    V::splat(a.largest()),
                ] {
                    // The bits of a NaN are of no meaning.
                    out.extend(x.array().map(|x| if x.is_nan() { 1 } else { x.to_bits() }));
                }
                let half = pair[0].map(f16::from_f32);
                out.extend(V::load_f16(half.as_ptr()).array().map(f32::to_bits));
                let codes = pair[0].map(|x| x.to_bits() as i8);
                out.extend(V::load_i8(codes.as_ptr()).array().map(f32::to_bits));
            }
        }
        out
    }

    #[test]
    fn kernels_lanes_are_the_same_on_every_instruction_set() {
        // SAFETY: what each form needs is asked for.
        unsafe {
            let want = all::<Portable>();
            assert!(want.len() > 50_000);
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                {
                    assert!(all::<Avx2>() == want);
                }
                if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                    assert!(all::<Avx512>() == want);
                }
            }
        }
    }
}
