//! Eight sub-blocks side by side, one per lane.

/// Sub-blocks treated at once.
pub(super) const WIDTH: usize = 8;

/// One number for each of eight sub-blocks.
pub(super) type Lanes = [f32; WIDTH];

/// Sub-blocks of `N` values, transposed: `[i][lane]` is value `i` of sub-block `lane`.
pub(super) type Columns<const N: usize> = [Lanes; N];

/// Transposes eight consecutive sub-blocks of `N` values. `values` holds `8 · N` of them.
pub(super) fn columns<const N: usize>(values: &[f32]) -> Columns<N> {
    let mut columns = [[0.0; WIDTH]; N];
    for (lane, values) in values.as_chunks::<N>().0.iter().take(WIDTH).enumerate() {
        for (column, &value) in columns.iter_mut().zip(values) {
            column[lane] = value;
        }
    }
    columns
}

/// Transposes codes back into eight consecutive sub-blocks.
pub(super) fn rows<const N: usize>(columns: &Columns<N>, codes: &mut [i32]) {
    for (lane, codes) in codes.as_chunks_mut::<N>().0.iter_mut().take(WIDTH).enumerate() {
        for (column, code) in columns.iter().zip(codes) {
            *code = nearest(column[lane]);
        }
    }
}

/// Rounds to the nearest integer, ties to even, for magnitudes below 2²².
///
/// Adding 1.5 · 2²³ leaves no room for a fraction; the integer stands in the low bits of the
/// mantissa. Beyond that range the result is the reference's: deterministic, but no rounding.
#[inline]
pub(super) fn nearest(value: f32) -> i32 {
    ((value + 12_582_912.0).to_bits() & 0x007f_ffff) as i32 - 0x0040_0000
}

/// [`nearest`] within `least ..= most`, as a float.
#[inline]
pub(super) fn code(value: f32, least: f32, most: f32) -> f32 {
    let code = nearest(value) as f32;
    let code = if code < most { code } else { most };
    if code > least { code } else { least }
}
