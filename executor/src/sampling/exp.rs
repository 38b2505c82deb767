//! The exponential function for weights: the same on every machine, and quick for a whole vocabulary.

/// e to the power of a number from minus infinity to 0, to about one part in ten million; 0 below −87.
pub(super) fn exp_negative(x: f32) -> f32 {
    // x = n·ln 2 + r with |r| ≤ ln 2 / 2, ln 2 in two parts so that the product is exact.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let inside = x.max(-87.0);
    let n = (inside * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = (inside - n * LN2_HIGH) - n * LN2_LOW;
    // The coefficients of Cephes' expf (Moshier).
    let p = 1.987_569_2e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let power = p * r * r + r + 1.0;
    let scale = f32::from_bits(((n as i32 + 127) << 23) as u32);
    if x < -87.0 { 0.0 } else { power * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_exact_value() {
        for i in 0..=870_000 {
            let x = -i as f32 / 10_000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp_negative(x)) - exact).abs() / exact;
            assert!(error < 1.5e-7, "{x}: {error}");
        }
        assert_eq!(exp_negative(0.0), 1.0);
        assert_eq!(exp_negative(-0.0), 1.0);
        assert_eq!(exp_negative(-88.0), 0.0);
        assert_eq!(exp_negative(f32::NEG_INFINITY), 0.0);
    }
}
