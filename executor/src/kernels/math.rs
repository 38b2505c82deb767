//! Elementary functions in `f32` without branches, so that loops over them vectorise, and the
//! one order in which eight lanes are summed.
//!
//! Polynomials for `exp` and `tanh` are those of Cephes, the rational form of `erf` is that of
//! Eigen; each is within a few units in the last place, which the tests bound.

use super::lanes::Lanes;

/// Lanes of every `f32` reduction: lane `i` takes the elements whose index is `i` modulo 8.
pub(super) const LANES: usize = 8;

/// Adds eight lanes in the order that halving a vector register gives.
#[inline(always)]
pub(super) fn add_lanes(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Above, `eˣ` is infinite; below, zero.
const HIGH: f32 = 89.0;
const LOW: f32 = -104.5;
/// Adding and subtracting 1.5 · 2²³ rounds to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// From the highest power down to the second.
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];
/// From the highest power of x² down to the first.
const TANH: [f32; 5] = [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
/// Numerator of `erf(x)/x` from the highest power of x² down to the lowest.
const ERF_ABOVE: [f32; 7] =
    [-2.726_142_3e-10, 2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906e-4, -2.954_6e-3, -1.609_603_3e-2];
/// Its denominator.
const ERF_BELOW: [f32; 5] = [-1.456_607_2e-5, -2.133_740_5e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];

/// `eˣ`: 0 below the least subnormal number, infinity above the range, NaN for NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x > HIGH { HIGH } else { x };
    let x = if x < LOW { LOW } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let [mut p, rest @ ..] = EXP;
    for factor in rest {
        p = p * r + factor;
    }
    p = p * (r * r) + r + 1.0;
    // Two factors, since 2ⁿ itself may be subnormal or out of range.
    let half = exponent >> 1;
    p * power_of_two(half) * power_of_two(exponent.wrapping_sub(half))
}

/// `2ⁿ` for an exponent of a normal number.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let z = x * x;
    let [mut p, rest @ ..] = TANH;
    for factor in rest {
        p = p * z + factor;
    }
    let near = p * z * x + x;
    let far = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

/// [`exp`] of sixteen numbers, with fused multiplications and additions: a little more accurate, and
/// fast where they are there.
///
/// # Safety
/// The instruction set of `V`.
#[inline(always)]
#[allow(unsafe_code, reason = "vector instructions need an instruction set")]
pub(super) unsafe fn exp_of<V: Lanes>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        // Operands in this order: a NaN stays.
        let x = V::splat(LOW).larger(V::splat(HIGH).smaller(x));
        let round = V::splat(ROUND);
        let n = x.mul_add(V::splat(std::f32::consts::LOG2_E), round).sub(round);
        let r = n.mul_add(V::splat(-LN2_LOW), n.mul_add(V::splat(-LN2_HIGH), x));
        let [first, rest @ ..] = EXP;
        let mut p = V::splat(first);
        for factor in rest {
            p = p.mul_add(r, V::splat(factor));
        }
        p.mul_add(r.mul(r), r).add(V::splat(1.0)).scale_by_power(n)
    }
}

/// [`tanh`] of sixteen numbers, as [`exp_of`].
///
/// # Safety
/// The instruction set of `V`.
#[inline(always)]
#[allow(unsafe_code, reason = "vector instructions need an instruction set")]
pub(super) unsafe fn tanh_of<V: Lanes>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let (one, z, size) = (V::splat(1.0), x.mul(x), x.abs());
        let [first, rest @ ..] = TANH;
        let mut p = V::splat(first);
        for factor in rest {
            p = p.mul_add(z, V::splat(factor));
        }
        let near = p.mul(z).mul_add(x, x);
        let far = one.sub(V::splat(2.0).div(exp_of(size.add(size)).add(one))).copysign(x);
        size.less(V::splat(0.625), near, far)
    }
}

/// The error function, with fused multiplications and additions.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let x = if x > 4.0 { 4.0 } else { x };
    let x = if x < -4.0 { -4.0 } else { x };
    let z = x * x;
    let [mut p, rest @ ..] = ERF_ABOVE;
    for factor in rest {
        p = p.mul_add(z, factor);
    }
    let [mut q, rest @ ..] = ERF_BELOW;
    for factor in rest {
        q = q.mul_add(z, factor);
    }
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Portable;
    use super::*;

    /// `erf` in double precision by its series, which is accurate enough up to 4.
    fn erf_reference(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[allow(unsafe_code, reason = "the portable form needs no instruction set")]
    fn exp_fused(x: f32) -> f32 {
        // SAFETY: the portable form needs no instruction set.
        unsafe { exp_of(Portable::splat(x)).largest() }
    }

    #[allow(unsafe_code, reason = "the portable form needs no instruction set")]
    fn tanh_fused(x: f32) -> f32 {
        // SAFETY: as above.
        unsafe { tanh_of(Portable::splat(x)).array()[3] }
    }

    #[test]
    fn kernels_exp_is_accurate_and_total() {
        for exp in [exp, exp_fused] {
            let mut worst = 0.0_f64;
            for i in -87_000..88_700 {
                let x = i as f32 / 1000.0;
                let want = f64::from(x).exp();
                worst = worst.max((f64::from(exp(x)) - want).abs() / want);
            }
            assert!(worst < 2.5e-7, "{worst}");
            assert_eq!(exp(0.0), 1.0);
            assert_eq!(exp(f32::NEG_INFINITY), 0.0);
            assert_eq!(exp(-1e30), 0.0);
            assert_eq!(exp(f32::INFINITY), f32::INFINITY);
            assert!(exp(-100.0) > 0.0);
            assert!(exp(f32::NAN).is_nan());
        }
    }

    #[test]
    fn kernels_tanh_sigmoid_and_erf_are_accurate() {
        for i in -10_000..=10_000 {
            let x = i as f32 / 1000.0;
            let wide = f64::from(x);
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 2e-7, "tanh {x}");
            assert!((f64::from(tanh_fused(x)) - wide.tanh()).abs() < 2e-7, "tanh {x}");
            let want = 1.0 / (1.0 + (-wide).exp());
            assert!((f64::from(sigmoid(x)) - want).abs() < 2e-7, "sigmoid {x}");
            if x.abs() <= 4.0 {
                let want = erf_reference(wide);
                assert!((f64::from(erf(x)) - want).abs() < 5e-7, "erf {x}");
            } else {
                assert!((erf(x).abs() - 1.0).abs() < 5e-7);
            }
        }
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert!(tanh_fused(f32::NAN).is_nan());
        assert!(tanh(f32::NAN).is_nan() && erf(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }
}
