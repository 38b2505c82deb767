//! The searches for a scale per sub-block without a minimum, of q3k and q6k.
//!
//! A value is approximated by `scale · code` with codes from `−most` to `most − 1`. The value
//! of largest magnitude gets the code `−most` at first, whatever its sign, so scales can be
//! negative. Values weigh by their square.

use super::lanes::{Columns, Lanes, WIDTH, code};

/// Sub-blocks below this magnitude are zero.
pub(super) const LEAST_MAGNITUDE: f32 = 1e-15;

/// What a search found, per sub-block.
pub(super) struct Fit<const N: usize> {
    /// Value per code unit; 0 for a sub-block of zeros.
    pub scale: Lanes,
    /// The codes plus `most`; 0 for a sub-block of zeros.
    pub codes: Columns<N>,
}

/// The value of largest magnitude, with its sign, and where that is too little to scale.
fn extremes<const N: usize>(x: &Columns<N>) -> (Lanes, [bool; WIDTH]) {
    let (mut max, mut most) = ([0.0; WIDTH], [0.0; WIDTH]);
    for x in x {
        for lane in 0..WIDTH {
            let larger = x[lane].abs() > most[lane];
            max[lane] = if larger { x[lane] } else { max[lane] };
            most[lane] = if larger { x[lane].abs() } else { most[lane] };
        }
    }
    (max, most.map(|most| most < LEAST_MAGNITUDE))
}

/// Searches eight sub-blocks by trying nineteen spreads of the codes and solving the weighted
/// least squares of each, as q6k does.
pub(super) fn fit_by_spread<const N: usize>(x: &Columns<N>, most: f32) -> Fit<N> {
    let (max, zero) = extremes(x);
    let mut inverse = [0.0; WIDTH];
    for lane in 0..WIDTH {
        inverse[lane] = -most / max[lane];
    }
    let (xl, l2) = sums(x, most, &inverse);
    let mut scale = [0.0; WIDTH];
    let mut best = [0.0; WIDTH];
    let mut best_inverse = inverse;
    for lane in 0..WIDTH {
        let quotient = xl[lane] / l2[lane];
        scale[lane] = if l2[lane] != 0.0 { quotient } else { 0.0 };
        best[lane] = scale[lane] * xl[lane];
    }
    for step in (-9_i8..=9).filter(|&step| step != 0) {
        let spread = -(most + 0.1_f32 * f32::from(step));
        for lane in 0..WIDTH {
            inverse[lane] = spread / max[lane];
        }
        let (xl, l2) = sums(x, most, &inverse);
        for lane in 0..WIDTH {
            let (xl, l2) = (xl[lane], l2[lane]);
            let better = (l2 > 0.0) & (xl * xl > best[lane] * l2);
            let quotient = xl / l2;
            scale[lane] = if better { quotient } else { scale[lane] };
            best[lane] = if better { quotient * xl } else { best[lane] };
            best_inverse[lane] = if better { inverse[lane] } else { best_inverse[lane] };
        }
    }
    let mut codes = [[0.0; WIDTH]; N];
    for (x, codes) in x.iter().zip(&mut codes) {
        for lane in 0..WIDTH {
            let found = code(best_inverse[lane] * x[lane], -most, most - 1.0);
            codes[lane] = if zero[lane] { 0.0 } else { found + most };
        }
    }
    Fit { scale: std::array::from_fn(|lane| if zero[lane] { 0.0 } else { scale[lane] }), codes }
}

/// The weighted sums of values times codes and of squared codes.
#[inline]
fn sums<const N: usize>(x: &Columns<N>, most: f32, inverse: &Lanes) -> (Lanes, Lanes) {
    let (mut xl, mut l2) = ([0.0; WIDTH], [0.0; WIDTH]);
    for x in x {
        for lane in 0..WIDTH {
            let value = x[lane];
            let code = code(inverse[lane] * value, -most, most - 1.0);
            let w = value * value;
            xl[lane] += w * value * code;
            l2[lane] += w * code * code;
        }
    }
    (xl, l2)
}

/// Searches eight sub-blocks by improving one code at a time, as q3k does: each value's code
/// becomes the one that fits the scale of the others, where that lessens the weighted error of
/// the whole. At most five rounds; a round that changes nothing in a lane settles it.
pub(super) fn fit_by_value<const N: usize>(x: &Columns<N>, most: f32) -> Fit<N> {
    let (max, zero) = extremes(x);
    let mut inverse = [0.0; WIDTH];
    for lane in 0..WIDTH {
        inverse[lane] = -most / max[lane];
    }
    let (mut xl, mut l2) = sums(x, most, &inverse);
    let mut codes = [[0.0; WIDTH]; N];
    for (x, codes) in x.iter().zip(&mut codes) {
        for lane in 0..WIDTH {
            codes[lane] = code(inverse[lane] * x[lane], -most, most - 1.0);
        }
    }
    for _ in 0..5 {
        let before = codes;
        for (x, codes) in x.iter().zip(&mut codes) {
            for lane in 0..WIDTH {
                let (value, old) = (x[lane], codes[lane]);
                let w = value * value;
                let wx = w * value;
                let (rest_xl, rest_l2) = (xl[lane] - wx * old, l2[lane] - w * old * old);
                let new = code(value * rest_l2 / rest_xl, -most, most - 1.0);
                let (new_xl, new_l2) = (rest_xl + wx * new, rest_l2 + w * new * new);
                // Without short circuits, so that the lanes stay together.
                let better = (rest_xl > 0.0)
                    & (new != old)
                    & (new_l2 > 0.0)
                    & (new_xl * new_xl * l2[lane] > xl[lane] * xl[lane] * new_l2);
                codes[lane] = if better { new } else { old };
                xl[lane] = if better { new_xl } else { xl[lane] };
                l2[lane] = if better { new_l2 } else { l2[lane] };
            }
        }
        if codes == before {
            break;
        }
    }
    let mut scale = [0.0; WIDTH];
    for lane in 0..WIDTH {
        let quotient = xl[lane] / l2[lane];
        scale[lane] = if l2[lane] > 0.0 && !zero[lane] { quotient } else { 0.0 };
    }
    for codes in &mut codes {
        for lane in 0..WIDTH {
            codes[lane] = if zero[lane] { 0.0 } else { codes[lane] + most };
        }
    }
    Fit { scale, codes }
}
