//! `q8`: 32 signed bytes under one unsigned 8.8 scale; a value is `i8 × scale / 32512`.
//!
//! 32512 = 256 · 127, so the scale `S` (in units of 1/256) spans magnitudes up to `S / 256`.

use super::error::{check_range, fits};
use super::{EncodingError, MAX_SCALE};

/// Values per block.
pub(super) const LEN: usize = 32;
/// Bytes per block: the scale and a byte per value.
pub(super) const BYTES: usize = 34;

/// Steps of a scale of one.
const DIVISOR: f32 = 32_512.0;
/// The largest code that the encoder writes. It leaves −128 to other writers, so that codes
/// can be negated in eight bits.
const MAX_CODE: f64 = 127.0;
/// The largest magnitude that the largest scale spans.
const LIMIT: f64 = MAX_SCALE as f64 / 256.0;

/// Decodes; the caller has checked the lengths.
pub(super) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let [low, high, codes @ ..] = block;
        let scale = f32::from(u16::from_le_bytes([*low, *high]));
        for (&code, value) in codes.iter().zip(values) {
            // The product has at most 23 bits: only the division rounds.
            *value = f32::from(code as i8) * scale / DIVISOR;
        }
    }
}

/// Encodes with the scale of least squared error among the smallest that covers the block's
/// largest magnitude and its two neighbours.
pub(super) fn encode(values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let blocks = values.as_chunks::<LEN>().0;
    let start = out.len();
    out.resize(start + blocks.len() * BYTES, 0);
    let (_, encoded) = out.split_at_mut(start);
    let targets = encoded.as_chunks_mut::<BYTES>().0;
    for (index, (block, target)) in blocks.iter().zip(targets).enumerate() {
        let magnitude = magnitude(block);
        if !fits(magnitude, LIMIT) {
            check_range(block, -LIMIT, LIMIT).map_err(|error| error.shifted(index * LEN))?;
        }
        let wide = block.map(f64::from);
        let cover = (f64::from(magnitude) * 256.0).ceil() as u16;
        let mut best = (f64::INFINITY, cover);
        for scale in cover.saturating_sub(1)..=(cover + 1).min(MAX_SCALE) {
            let error = squared_error(&wide, scale);
            if error < best.0 {
                best = (error, scale);
            }
        }
        write_block(&wide, best.1, target);
    }
    Ok(())
}

/// The largest magnitude of a block; NaN counts as larger than infinity.
pub(super) fn magnitude(block: &[f32; LEN]) -> f32 {
    // Without its sign bit a float orders as an integer.
    let bits = block.iter().fold(0, |most: i32, value| most.max((value.abs().to_bits()) as i32));
    f32::from_bits(bits as u32)
}

/// Rounds to the nearest integer, ties to even, for magnitudes below 2⁵¹.
///
/// The addition leaves no room for a fraction and vectorises where `round_ties_even` would be
/// a call.
#[inline]
pub(super) fn nearest(value: f64) -> f64 {
    (value + SHIFT) - SHIFT
}

/// The low eight bits, in two's complement, of an integer of magnitude below 2⁵¹. A plain cast
/// would check the range of each value.
#[inline]
pub(super) fn low_byte(integer: f64) -> u8 {
    (integer + SHIFT).to_bits() as u8
}

/// 1.5 · 2⁵²: sums with it have steps of one, and end in the bits of the integer added.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// Limits a number that is not NaN.
#[inline]
pub(super) fn limit(value: f64, least: f64, most: f64) -> f64 {
    let value = if value < most { value } else { most };
    if value > least { value } else { least }
}

/// Code units per unit of value under a scale; a scale of zero makes every code zero.
#[inline]
fn codes_per_unit(scale: u16) -> f64 {
    if scale == 0 { 0.0 } else { f64::from(DIVISOR) / f64::from(scale) }
}

/// The sum of squared differences that a scale leaves.
fn squared_error(block: &[f64; LEN], scale: u16) -> f64 {
    let inverse = codes_per_unit(scale);
    let step = f64::from(scale) / f64::from(DIVISOR);
    let mut sums = [0.0_f64; 4];
    for group in block.as_chunks::<4>().0 {
        for (&value, sum) in group.iter().zip(&mut sums) {
            let code = limit(nearest(value * inverse), -MAX_CODE, MAX_CODE);
            let difference = value - code * step;
            *sum += difference * difference;
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Writes the scale and the codes of a block.
fn write_block(block: &[f64; LEN], scale: u16, target: &mut [u8; BYTES]) {
    let inverse = codes_per_unit(scale);
    let [low, high, codes @ ..] = target;
    [*low, *high] = scale.to_le_bytes();
    for (&value, code) in block.iter().zip(codes) {
        *code = low_byte(limit(nearest(value * inverse), -MAX_CODE, MAX_CODE));
    }
}
