//! Elementary functions in `f32` without branches, so that loops over them vectorise, and the
//! one order in which eight lanes are summed.
//!
//! Polynomials for `exp` and `tanh` are those of Cephes, the rational form of `erf` is that of
//! Eigen; each is within a few units in the last place, which the tests bound.

/// Lanes of every `f32` reduction: lane `i` takes the elements whose index is `i` modulo 8.
pub(super) const LANES: usize = 8;

/// Adds eight lanes in the order that halving a vector register gives.
#[inline(always)]
pub(super) fn add_lanes(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// As [`add_lanes`], in double precision.
#[inline(always)]
pub(super) fn add_lanes_f64(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// `eˣ`: 0 below the least subnormal number, infinity above the range, NaN for NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const HIGH: f32 = 89.0;
    const LOW: f32 = -104.5;
    // Adding and subtracting 1.5 · 2²³ rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > HIGH { HIGH } else { x };
    let x = if x < LOW { LOW } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4_f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
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
    let mut p = -5.704_988_7e-3_f32;
    p = p * z + 2.063_909e-2;
    p = p * z - 5.373_971_6e-2;
    p = p * z + 1.333_144_2e-1;
    p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let far = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

/// The error function.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let x = if x > 4.0 { 4.0 } else { x };
    let x = if x < -4.0 { -4.0 } else { x };
    let z = x * x;
    let mut p = -2.726_142_3e-10_f32;
    p = p * z + 2.770_681_4e-8;
    p = p * z - 2.101_024e-6;
    p = p * z - 5.692_506_4e-5;
    p = p * z - 7.349_906e-4;
    p = p * z - 2.954_6e-3;
    p = p * z - 1.609_603_3e-2;
    let mut q = -1.456_607_2e-5_f32;
    q = q * z - 2.133_740_5e-4;
    q = q * z - 1.682_827e-3;
    q = q * z - 7.373_329_2e-3;
    q = q * z - 1.426_473_9e-2;
    x * p / q
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn kernels_exp_is_accurate_and_total() {
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

    #[test]
    fn kernels_tanh_sigmoid_and_erf_are_accurate() {
        for i in -10_000..=10_000 {
            let x = i as f32 / 1000.0;
            let wide = f64::from(x);
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 2e-7, "tanh {x}");
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
        assert!(tanh(f32::NAN).is_nan() && erf(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
    }
}
