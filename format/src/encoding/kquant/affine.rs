//! The search for a scale and a minimum per sub-block, of q2k, q4k and q5k.
//!
//! A value is approximated by `scale · code − offset` with codes from 0. The first try spreads
//! the codes over the range from the minimum to the maximum; each further try takes a slightly
//! different spread, solves the weighted least squares for scale and minimum, and is kept if
//! its weighted error is less.

use super::lanes::{Columns, Lanes, WIDTH, code};

/// What a search tries.
pub(super) struct Search {
    /// The largest code.
    pub most: f32,
    /// Code units added to the spread of the first try; each further try adds 0.1 more.
    pub first: f32,
    /// The number of the last try, counted from 0.
    pub last: u8,
}

/// What a search found, per sub-block.
pub(super) struct Fit<const N: usize> {
    /// Value per code unit.
    pub scale: Lanes,
    /// What is subtracted: the minimum, negated.
    pub offset: Lanes,
    /// The codes that belong to the best try.
    pub codes: Columns<N>,
}

/// Searches eight sub-blocks of `N` values `x` with weights `w`. `ABSOLUTE` takes the absolute
/// difference as the error of a value, else its square.
pub(super) fn fit<const N: usize, const ABSOLUTE: bool>(x: &Columns<N>, w: &Columns<N>, search: &Search) -> Fit<N> {
    let most = search.most;
    let mut min = x[0];
    let mut max = x[0];
    let mut sum_w = w[0];
    let mut sum_x = [0.0; WIDTH];
    for lane in 0..WIDTH {
        sum_x[lane] = w[0][lane] * x[0][lane];
    }
    for (x, w) in x.iter().zip(w).skip(1) {
        for lane in 0..WIDTH {
            min[lane] = if x[lane] < min[lane] { x[lane] } else { min[lane] };
            max[lane] = if x[lane] > max[lane] { x[lane] } else { max[lane] };
            sum_w[lane] += w[lane];
            sum_x[lane] += w[lane] * x[lane];
        }
    }
    let mut inverse = [0.0; WIDTH];
    let mut scale = [0.0; WIDTH];
    for lane in 0..WIDTH {
        min[lane] = if min[lane] > 0.0 { 0.0 } else { min[lane] };
        inverse[lane] = most / (max[lane] - min[lane]);
        scale[lane] = 1.0 / inverse[lane];
    }
    // Where all values are one, not above zero, there is only a minimum; such lanes run along.
    let flat: [bool; WIDTH] = std::array::from_fn(|lane| max[lane] == min[lane]);
    let flat_min = min;

    let mut codes = [[0.0; WIDTH]; N];
    let _ = sums(x, w, most, &inverse, &min, &mut codes);
    let mut best = error::<N, ABSOLUTE>(x, w, &codes, &scale, &min);
    // The spread and the minimum from which the codes of the best try follow.
    let (mut best_inverse, mut best_base) = (inverse, min);
    for step in 0..=search.last {
        let spread = search.first + 0.1_f32 * f32::from(step) + most;
        for lane in 0..WIDTH {
            inverse[lane] = spread / (max[lane] - min[lane]);
        }
        let base = min;
        let sums = sums(x, w, most, &inverse, &base, &mut codes);
        let mut next_scale = [0.0; WIDTH];
        let mut next_min = [0.0; WIDTH];
        let mut determinant = [0.0; WIDTH];
        for lane in 0..WIDTH {
            let (l, l2, xl) = (sums.l[lane], sums.l2[lane], sums.xl[lane]);
            let (sw, sx) = (sum_w[lane], sum_x[lane]);
            let d = sw * l2 - l * l;
            let slope = (sw * xl - sx * l) / d;
            let least = (l2 * sx - l * xl) / d;
            let above = least > 0.0;
            determinant[lane] = d;
            next_scale[lane] = if above { xl / l2 } else { slope };
            next_min[lane] = if above { 0.0 } else { least };
        }
        let errors = error::<N, ABSOLUTE>(x, w, &codes, &next_scale, &next_min);
        for lane in 0..WIDTH {
            let better = (determinant[lane] > 0.0) & (errors[lane] < best[lane]);
            best[lane] = if better { errors[lane] } else { best[lane] };
            scale[lane] = if better { next_scale[lane] } else { scale[lane] };
            min[lane] = if better { next_min[lane] } else { min[lane] };
            best_inverse[lane] = if better { inverse[lane] } else { best_inverse[lane] };
            best_base[lane] = if better { base[lane] } else { best_base[lane] };
        }
    }

    for (x, codes) in x.iter().zip(&mut codes) {
        for lane in 0..WIDTH {
            let found = code(best_inverse[lane] * (x[lane] - best_base[lane]), 0.0, most);
            codes[lane] = if flat[lane] { 0.0 } else { found };
        }
    }
    Fit {
        scale: std::array::from_fn(|lane| if flat[lane] { 0.0 } else { scale[lane] }),
        offset: std::array::from_fn(|lane| -(if flat[lane] { flat_min } else { min })[lane]),
        codes,
    }
}

/// The weighted sums of codes, of their squares, and of their products with the values.
struct Sums {
    l: Lanes,
    l2: Lanes,
    xl: Lanes,
}

#[inline]
fn sums<const N: usize>(
    x: &Columns<N>,
    w: &Columns<N>,
    most: f32,
    inverse: &Lanes,
    base: &Lanes,
    codes: &mut Columns<N>,
) -> Sums {
    let (mut l, mut l2, mut xl) = ([0.0; WIDTH], [0.0; WIDTH], [0.0; WIDTH]);
    for ((x, w), codes) in x.iter().zip(w).zip(codes) {
        for lane in 0..WIDTH {
            let code = code(inverse[lane] * (x[lane] - base[lane]), 0.0, most);
            codes[lane] = code;
            let weighted = w[lane] * code;
            l[lane] += weighted;
            l2[lane] += weighted * code;
            xl[lane] += weighted * x[lane];
        }
    }
    Sums { l, l2, xl }
}

/// The weighted error of the codes that follow from `inverse` and `base`, under a scale and a
/// minimum.
#[inline]
fn error<const N: usize, const ABSOLUTE: bool>(
    x: &Columns<N>,
    w: &Columns<N>,
    codes: &Columns<N>,
    scale: &Lanes,
    min: &Lanes,
) -> Lanes {
    let mut sum = [0.0; WIDTH];
    for ((x, w), codes) in x.iter().zip(w).zip(codes) {
        for lane in 0..WIDTH {
            let difference = scale[lane] * codes[lane] + min[lane] - x[lane];
            let error = if ABSOLUTE { difference.abs() } else { difference * difference };
            sum[lane] += w[lane] * error;
        }
    }
    sum
}
