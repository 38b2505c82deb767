//! `u32` and `u16`: one signed fixed-point number per value.

use super::EncodingError;
use super::error::check_range;
use super::q8::nearest;

/// Steps of `u32` per unit.
const U32_UNIT: f64 = 65_536.0;
/// Steps of `u16` per unit.
const U16_UNIT: f64 = 256.0;

/// `i32 / 65536` in one rounding; the caller has checked the lengths.
pub(super) fn decode_u32(bytes: &[u8], out: &mut [f32]) {
    for (raw, value) in bytes.as_chunks::<4>().0.iter().zip(out) {
        // Scaling by a power of two is exact, so the conversion is the only rounding.
        *value = i32::from_le_bytes(*raw) as f32 * (1.0 / U32_UNIT as f32);
    }
}

/// `i16 / 256`, exact; the caller has checked the lengths.
pub(super) fn decode_u16(bytes: &[u8], out: &mut [f32]) {
    for (raw, value) in bytes.as_chunks::<2>().0.iter().zip(out) {
        *value = f32::from(i16::from_le_bytes(*raw)) * (1.0 / U16_UNIT as f32);
    }
}

/// The nearest step, ties to even.
pub(super) fn encode_u32(values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let (least, most) = (i32::MIN.into(), i32::MAX.into());
    encode(values, out, U32_UNIT, least, most, |step| (step as i32).to_le_bytes())
}

/// The nearest step, ties to even.
pub(super) fn encode_u16(values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
    let (least, most) = (i16::MIN.into(), i16::MAX.into());
    encode(values, out, U16_UNIT, least, most, |step| (step as i16).to_le_bytes())
}

/// Appends `value × unit` rounded to an integer within `least ..= most`, as `bytes` writes it.
/// A value that would round to an integer outside is an error; one that rounds to the last
/// integer inside is not.
fn encode<const BYTES: usize>(
    values: &[f32],
    out: &mut Vec<u8>,
    unit: f64,
    least: f64,
    most: f64,
    bytes: impl Fn(f64) -> [u8; BYTES],
) -> Result<(), EncodingError> {
    let start = out.len();
    out.resize(start + values.len() * BYTES, 0);
    let (_, encoded) = out.split_at_mut(start);
    let targets = encoded.as_chunks_mut::<BYTES>().0;
    for (index, (&value, target)) in values.iter().zip(targets).enumerate() {
        // The product is exact in double precision: 24 bits times a power of two.
        let step = nearest(f64::from(value) * unit);
        if !(least..=most).contains(&step) {
            check_range(&values[index..=index], least / unit, most / unit).map_err(|error| error.shifted(index))?;
        }
        *target = bytes(step);
    }
    Ok(())
}
