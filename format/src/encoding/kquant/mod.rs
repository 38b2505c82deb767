//! GGUF's K-quants: super-blocks of 256 values whose sub-blocks share half-precision scales.
//!
//! The layouts, the arithmetic of decoding and the searches of encoding follow llama.cpp's
//! reference quantiser without an importance matrix, operation by operation in single
//! precision, so that the bytes are the same (as of its build for plain x86-64, which fuses no
//! multiplications with additions). The searches work on eight sub-blocks at once, one per
//! lane of [`lanes::Lanes`]: each lane adds in the order of the reference, and the compiler
//! turns the lanes into vector instructions.

mod affine;
mod lanes;
pub(super) mod q2k;
pub(super) mod q3k;
pub(super) mod q4k;
pub(super) mod q5k;
pub(super) mod q6k;
mod scales;
mod symmetric;

use super::EncodingError;
use super::error::{check_range, fits};
use half::f16;

/// Values per super-block.
pub(super) const LEN: usize = 256;

/// Largest finite half-precision number.
const F16_MAX: f64 = 65_504.0;

/// How one super-block of `BYTES` bytes is encoded.
pub(super) struct Encoder<const BYTES: usize> {
    /// No magnitude above this fits, whatever the rest of the super-block.
    pub limit: f64,
    /// Writes one super-block; false when a half-precision scale overflowed.
    pub block: fn(&[f32; LEN], &mut [u8; BYTES]) -> bool,
}

/// Encodes whole super-blocks onto the end of `out`.
pub(super) fn encode<const BYTES: usize>(
    values: &[f32],
    out: &mut Vec<u8>,
    encoder: Encoder<BYTES>,
) -> Result<(), EncodingError> {
    let blocks = values.as_chunks::<LEN>().0;
    let start = out.len();
    out.resize(start + blocks.len() * BYTES, 0);
    let (_, encoded) = out.split_at_mut(start);
    let targets = encoded.as_chunks_mut::<BYTES>().0;
    for (index, (block, target)) in blocks.iter().zip(targets).enumerate() {
        let (at, most) = largest(block);
        if !fits(most, encoder.limit) {
            check_range(block, -encoder.limit, encoder.limit).map_err(|error| error.shifted(index * LEN))?;
        }
        if !(encoder.block)(block, target) {
            return Err(EncodingError::OutOfRange {
                index: index * LEN + at,
                value: block[at],
                limit: encoder.limit.copysign(block[at].into()),
            });
        }
    }
    Ok(())
}

/// Index and magnitude of the value of largest magnitude; NaN counts as the largest.
fn largest(block: &[f32; LEN]) -> (usize, f32) {
    let magnitude = |value: f32| value.abs().to_bits() as i32;
    let most = block.iter().fold(0, |most, &value| most.max(magnitude(value)));
    let at = block.iter().position(|&value| magnitude(value) == most);
    (at.unwrap_or(0), f32::from_bits(most as u32))
}

/// Reports the first super-block with a scale that is not finite. `places` are the offsets of
/// the half-precision scales in a super-block of `block` bytes.
pub(super) fn check_scales(bytes: &[u8], block: usize, places: &[usize]) -> Result<(), EncodingError> {
    for (index, bytes) in bytes.chunks_exact(block).enumerate() {
        for &place in places {
            let scale = bytes.get(place..place + 2).map(|pair| half_at(pair, 0));
            if !scale.is_some_and(f32::is_finite) {
                return Err(EncodingError::NotFinite { index: index * LEN });
            }
        }
    }
    Ok(())
}

/// The half-precision number at a place, widened exactly.
#[inline]
fn half_at(bytes: &[u8], place: usize) -> f32 {
    f16::from_le_bytes([bytes[place], bytes[place + 1]]).to_f32()
}

/// Writes a number in half precision, rounded to nearest even, and gives back what was stored.
fn put_half(target: &mut [u8], place: usize, value: f32) -> f32 {
    let half = f16::from_f32(value);
    target[place..place + 2].copy_from_slice(&half.to_le_bytes());
    half.to_f32()
}

/// Quantises a sub-block against its stored step: `(value + offset) / step` to the nearest
/// integer within `least ..= most`. A step of zero leaves the codes of the search.
fn requantise(values: &[f32], codes: &mut [i32], step: f32, offset: f32, least: i32, most: i32) {
    if step == 0.0 {
        return;
    }
    for (&value, code) in values.iter().zip(codes) {
        *code = lanes::nearest((value + offset) / step).clamp(least, most);
    }
}

/// Packs 2-bit codes: byte `i` of each 32 holds values `i`, `i + 32`, `i + 64` and `i + 96` of
/// its 128, lowest bits first.
fn pack_pairs(codes: &[i32; LEN], target: &mut [u8]) {
    for (codes, bytes) in codes.as_chunks::<128>().0.iter().zip(target.chunks_exact_mut(32)) {
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = (codes[place] | codes[place + 32] << 2 | codes[place + 64] << 4 | codes[place + 96] << 6) as u8;
        }
    }
}
