//! `q3k`, GGUF's Q3_K: 16 sub-blocks of 16 values of 3 bits.
//!
//! A super-block of 110 bytes: 32 bytes with the third bit of the codes (bit `k` of byte `i`
//! for value `32k + i`), 64 bytes with their low two bits, 12 bytes of 6-bit scales, and the
//! half-precision scale of the scales. A value is `d · (scale − 32) · (code − 4)`.

use super::lanes::{Columns, WIDTH, columns, nearest, rows};
use super::symmetric::fit_by_value;
use super::{Encoder, F16_MAX, LEN, half_at, pack_pairs, put_half, requantise};

/// Bytes per super-block.
pub(in crate::encoding) const BYTES: usize = 110;

/// Values per sub-block.
const SUB_LEN: usize = 16;
const SUB_BLOCKS: usize = 16;

/// The encoder.
pub(in crate::encoding) const ENCODER: Encoder<BYTES> = Encoder { limit: F16_MAX * 32.0 * 4.0, block: encode };

/// Unpacks the sixteen 6-bit scales, less 32: the low nibbles of bytes 0–7 are the low four
/// bits of scales 0–7, their high nibbles those of scales 8–15; byte `8 + s % 4` holds the upper
/// two bits of scale `s` at bit `2 · (s / 4)`.
#[inline]
fn unpack(packed: &[u8]) -> [i8; SUB_BLOCKS] {
    std::array::from_fn(|sub| {
        let low = if sub < 8 { packed[sub] & 15 } else { packed[sub - 8] >> 4 };
        let high = packed[8 + sub % 4] >> (2 * (sub / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// Decodes; the caller has checked the lengths.
pub(in crate::encoding) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let d = half_at(block, 108);
        let scales = unpack(&block[96..108]);
        let high = block[..32].as_chunks::<16>().0;
        for (half, values) in values.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let low = block[32 + 32 * half..64 + 32 * half].as_chunks::<16>().0;
            for (pair, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let bit = 4 * half + pair;
                let subs = values.as_chunks_mut::<SUB_LEN>().0.iter_mut();
                for (side, ((values, low), high)) in subs.zip(low).zip(high).enumerate() {
                    let step = d * f32::from(scales[2 * bit + side]);
                    for ((value, &low), &high) in values.iter_mut().zip(low).zip(high) {
                        let code = low >> (2 * pair) & 3 | (high >> bit & 1) << 2;
                        *value = step * f32::from(code as i8 - 4);
                    }
                }
            }
        }
    }
}

/// Encodes a super-block; false when the half-precision scale overflowed.
fn encode(block: &[f32; LEN], target: &mut [u8; BYTES]) -> bool {
    const HALF: usize = WIDTH * SUB_LEN;
    let mut codes = [0; LEN];
    let mut scales = [0.0; SUB_BLOCKS];
    for half in 0..2 {
        let x: Columns<SUB_LEN> = columns(&block[half * HALF..(half + 1) * HALF]);
        let found = fit_by_value(&x, 4.0);
        scales[half * WIDTH..(half + 1) * WIDTH].copy_from_slice(&found.scale);
        rows(&found.codes, &mut codes[half * HALF..(half + 1) * HALF]);
    }
    let most = signed_largest(&scales);

    target.fill(0);
    let mut d = 0.0;
    if most != 0.0 {
        let inverse = -32.0 / most;
        for (sub, scale) in scales.into_iter().enumerate() {
            // The reference narrows to a signed byte before it limits the scale.
            let scale = (nearest(inverse * scale) as i8).clamp(-32, 31) + 32;
            let (low, high) = (scale as u8 & 15, scale as u8 >> 4);
            target[96 + sub % 8] |= low << (sub / 8 * 4);
            target[96 + 8 + sub % 4] |= high << (2 * (sub / 4));
        }
        d = 1.0 / inverse;
    }
    let d = put_half(target, 108, d);
    let scales = unpack(&target[96..108]);
    let subs = block.chunks_exact(SUB_LEN).zip(codes.chunks_exact_mut(SUB_LEN));
    for ((block, codes), scale) in subs.zip(scales) {
        let step = d * f32::from(scale);
        if step != 0.0 {
            requantise(block, codes, step, 0.0, -4, 3);
            codes.iter_mut().for_each(|code| *code += 4);
        }
    }
    for (place, code) in codes.iter_mut().enumerate() {
        if *code > 3 {
            target[place % 32] |= 1 << (place / 32);
            *code -= 4;
        }
    }
    pack_pairs(&codes, &mut target[32..96]);
    d.is_finite()
}

/// The first of the scales of largest magnitude, with its sign.
pub(super) fn signed_largest(scales: &[f32]) -> f32 {
    scales.iter().fold(0.0_f32, |most, &scale| if scale.abs() > most.abs() { scale } else { most })
}
