//! `q4`: 32 nibbles under one unsigned 8.8 scale; a value is `(nibble − 8) × scale / 2048`.
//!
//! 2048 = 256 · 8, so the scale `S` (in units of 1/256) spans −S/256 to 7/8 of S/256. Byte `i`
//! holds value `i` in its low nibble and value `i + 16` in its high one, as in GGUF's Q4_0.
//!
//! The encoder takes the stored scale of least squared error among all from 0.8 to 1.3 of the
//! block's largest magnitude (the two scales around that range where it holds none, which only
//! blocks below 1/256 meet). Few candidates are tried one by one. Many are searched exactly by
//! pieces: between two scales at which the code of some value changes, the squared error is a
//! parabola in the scale, so only the stored scales next to its vertex can be the least.

use super::error::{check_range, fits};
use super::q8::{limit, low_byte, magnitude, nearest};
use super::{EncodingError, MAX_SCALE};

/// Values per block.
pub(super) const LEN: usize = 32;
/// Bytes per block: the scale and a nibble per value.
pub(super) const BYTES: usize = 18;

/// Steps of a scale of one.
const DIVISOR: f64 = 2048.0;
/// The least and the largest code, a nibble less 8.
const LEAST_CODE: f64 = -8.0;
const MOST_CODE: f64 = 7.0;
/// The range of the largest scale.
const LEAST: f64 = LEAST_CODE * MAX_SCALE as f64 / DIVISOR;
const MOST: f64 = MOST_CODE * MAX_SCALE as f64 / DIVISOR;
/// Up to this many candidate scales are tried one by one, which is then the faster way.
const ONE_BY_ONE: u16 = 40;

/// Decodes; the caller has checked the lengths.
pub(super) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let [low, high, codes @ ..] = block;
        let scale = f32::from(u16::from_le_bytes([*low, *high])) * (1.0 / DIVISOR as f32);
        let (first, second) = values.split_at_mut(LEN / 2);
        for ((&code, first), second) in codes.iter().zip(first).zip(second) {
            // Exact: 16 bits times 4 bits, scaled by a power of two.
            *first = (f32::from(code & 15) - 8.0) * scale;
            *second = (f32::from(code >> 4) - 8.0) * scale;
        }
    }
}

/// Encodes with the scale of least squared error, as the module says.
pub(super) fn encode(values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let blocks = values.as_chunks::<LEN>().0;
    let start = out.len();
    out.resize(start + blocks.len() * BYTES, 0);
    let (_, encoded) = out.split_at_mut(start);
    let targets = encoded.as_chunks_mut::<BYTES>().0;
    let mut changes = Vec::new();
    for (index, (block, target)) in blocks.iter().zip(targets).enumerate() {
        let magnitude = magnitude(block);
        if !fits(magnitude, MOST) {
            check_range(block, LEAST, MOST).map_err(|error| error.shifted(index * LEN))?;
        }
        let wide = block.map(f64::from);
        let (low, high) = candidates(magnitude.into());
        let scale = if high - low < ONE_BY_ONE {
            search_one_by_one(&wide, low, high)
        } else {
            search_by_pieces(&wide, low, high, &mut changes)
        };
        write_block(&wide, scale, target);
    }
    Ok(())
}

/// The first and the last stored scale to consider for a block's largest magnitude.
pub(super) fn candidates(magnitude: f64) -> (u16, u16) {
    let covering = magnitude * 256.0;
    let (least, most) = (covering * 4.0 / 5.0, covering * 13.0 / 10.0);
    let (low, high) = (least.ceil(), most.floor());
    let (low, high) = if low <= high { (low, high) } else { (least.floor(), most.ceil()) };
    ((low as u16).min(MAX_SCALE), (high as u16).min(MAX_SCALE))
}

/// The best scale of `low ..= high` by trying each; of equals the smallest.
pub(super) fn search_one_by_one(block: &[f64; LEN], low: u16, high: u16) -> u16 {
    let mut best = (f64::INFINITY, low);
    for scale in low..=high {
        let error = squared_error(block, scale);
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}

/// A stored scale from which on the code of one value is `code − 1`, nearer to zero.
#[derive(Clone, Copy)]
pub(super) struct Change {
    from: u16,
    magnitude: f64,
    code: f64,
}

/// The best scale of `low ..= high` (`low > 0`) from the parabolas between code changes; of
/// equals the smallest. `changes` is scratch space.
pub(super) fn search_by_pieces(block: &[f64; LEN], low: u16, high: u16, changes: &mut Vec<Change>) -> u16 {
    changes.clear();
    // With steps s = scale / 2048 and codes q, the error is Σx² − 2s·Σxq + s²·Σq².
    let (mut values, mut products, mut codes) = (0.0, 0.0, 0.0);
    for &value in block {
        let magnitude = value.abs();
        let most = if value < 0.0 { -LEAST_CODE } else { MOST_CODE };
        let code_at = |scale: u16| {
            let ratio = magnitude * (DIVISOR / f64::from(scale));
            limit(nearest(ratio), 0.0, most)
        };
        let last = code_at(high);
        let mut code = code_at(low);
        values += magnitude * magnitude;
        products += magnitude * code;
        codes += code * code;
        while code > last {
            let from = (magnitude * DIVISOR / (code - 0.5)).floor() + 1.0;
            // A tie at the first scale may already have rounded the other way.
            let from = limit(from, f64::from(low) + 1.0, f64::from(high)) as u16;
            changes.push(Change { from, magnitude, code });
            code -= 1.0;
        }
    }
    changes.sort_unstable_by_key(|change| change.from);

    let mut best = (f64::INFINITY, low);
    let mut piece = low;
    let mut rest = changes.as_slice();
    loop {
        let last = rest.first().map_or(high, |change| change.from - 1);
        let vertex = if codes > 0.0 { (DIVISOR * products / codes).floor() } else { 0.0 };
        for scale in [vertex, vertex + 1.0] {
            let scale = limit(scale, piece.into(), last.into());
            let step = scale / DIVISOR;
            let error = values + step * (step * codes - 2.0 * products);
            if error < best.0 {
                best = (error, scale as u16);
            }
        }
        let Some(next) = rest.first().map(|change| change.from) else {
            return best.1;
        };
        let here = rest.partition_point(|change| change.from == next);
        for change in &rest[..here] {
            products -= change.magnitude;
            codes -= 2.0 * change.code - 1.0;
        }
        rest = &rest[here..];
        piece = next;
    }
}

/// Code units per unit of value under a scale; a scale of zero makes every code zero.
#[inline]
fn codes_per_unit(scale: u16) -> f64 {
    if scale == 0 { 0.0 } else { DIVISOR / f64::from(scale) }
}

/// The sum of squared differences that a scale leaves.
pub(super) fn squared_error(block: &[f64; LEN], scale: u16) -> f64 {
    let inverse = codes_per_unit(scale);
    let step = f64::from(scale) / DIVISOR;
    let mut sums = [0.0_f64; 4];
    for group in block.as_chunks::<4>().0 {
        for (&value, sum) in group.iter().zip(&mut sums) {
            let code = limit(nearest(value * inverse), LEAST_CODE, MOST_CODE);
            let difference = value - code * step;
            *sum += difference * difference;
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Writes the scale and the codes of a block.
fn write_block(block: &[f64; LEN], scale: u16, target: &mut [u8; BYTES]) {
    let inverse = codes_per_unit(scale);
    let code = |value: f64| low_byte(limit(nearest(value * inverse), LEAST_CODE, MOST_CODE) - LEAST_CODE);
    let [low, high, bytes @ ..] = target;
    [*low, *high] = scale.to_le_bytes();
    let (first, second) = block.split_at(LEN / 2);
    for ((&first, &second), byte) in first.iter().zip(second).zip(bytes) {
        *byte = code(first) | code(second) << 4;
    }
}
