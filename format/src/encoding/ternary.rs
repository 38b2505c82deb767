//! `ternary`: four values of {−1, 0, +1} per byte, two bits each, lowest bits first.
//!
//! `00` is 0, `01` is +1, `10` is −1; `11` stands for nothing and is reported.

use super::EncodingError;

/// Values per byte.
pub(super) const LEN: usize = 4;

/// The value of each two-bit code; the last is invalid and caught before its use.
const VALUES: [f32; 4] = [0.0, 1.0, -1.0, 0.0];

/// Decodes; stops at the first byte that holds an invalid code.
pub(super) fn decode(bytes: &[u8], out: &mut [f32]) -> Result<(), EncodingError> {
    check(bytes)?;
    for (&byte, values) in bytes.iter().zip(out.as_chunks_mut::<LEN>().0) {
        for (place, value) in values.iter_mut().enumerate() {
            *value = VALUES[usize::from(byte >> (2 * place)) & 3];
        }
    }
    Ok(())
}

/// Reports the first code `11`.
pub(super) fn check(bytes: &[u8]) -> Result<(), EncodingError> {
    let at = |byte: u8| byte & (byte >> 1) & 0x55;
    // A fold over large chunks first, so that the usual case runs without a branch per byte.
    for (chunk, part) in bytes.chunks(4096).enumerate() {
        if part.iter().fold(0, |seen, &byte| seen | at(byte)) == 0 {
            continue;
        }
        if let Some((place, &byte)) = part.iter().enumerate().find(|&(_, &byte)| at(byte) != 0) {
            let index = (chunk * 4096 + place) * LEN + at(byte).trailing_zeros() as usize / 2;
            return Err(EncodingError::InvalidTernary { index });
        }
    }
    Ok(())
}

/// Encodes values that are exactly −1, 0 (of either sign) or 1.
pub(super) fn encode(values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
    out.reserve(values.len() / LEN);
    for (block, group) in values.as_chunks::<LEN>().0.iter().enumerate() {
        let mut byte = 0;
        for (place, &value) in group.iter().enumerate() {
            let index = block * LEN + place;
            let code = if value == 0.0 {
                0
            } else if value == 1.0 {
                1
            } else if value == -1.0 {
                2
            } else if value.is_finite() {
                return Err(EncodingError::NotTernary { index, value });
            } else {
                return Err(EncodingError::NotFinite { index });
            };
            byte |= code << (2 * place);
        }
        out.push(byte);
    }
    Ok(())
}
