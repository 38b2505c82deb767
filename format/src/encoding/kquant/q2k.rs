//! `q2k`, GGUF's Q2_K: 16 sub-blocks of 16 values of 2 bits.
//!
//! A super-block of 84 bytes: 16 bytes with a 4-bit scale (low) and a 4-bit minimum (high) per
//! sub-block, 64 bytes of codes, the half-precision scale of the scales, and that of the
//! minimums. A value is `d · scale · code − dmin · minimum`.

use super::affine::{Search, fit};
use super::lanes::{Columns, WIDTH, columns, nearest, rows};
use super::scales::largest;
use super::{Encoder, F16_MAX, LEN, half_at, pack_pairs, put_half, requantise};

/// Bytes per super-block.
pub(in crate::encoding) const BYTES: usize = 84;

/// Values per sub-block.
const SUB_LEN: usize = 16;
const SUB_BLOCKS: usize = 16;

/// The encoder; a minimum reaches 15 times the half-precision scale.
pub(in crate::encoding) const ENCODER: Encoder<BYTES> = Encoder { limit: F16_MAX * 15.0, block: encode };

/// Decodes; the caller has checked the lengths.
pub(in crate::encoding) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let (d, dmin) = (half_at(block, 80), half_at(block, 82));
        let scale = |sub: usize| {
            let pair = block[sub];
            (d * f32::from(pair & 15), dmin * f32::from(pair >> 4))
        };
        for (half, values) in values.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let codes = &block[16 + 32 * half..48 + 32 * half];
            for (pair, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let subs = values.as_chunks_mut::<SUB_LEN>().0.iter_mut();
                for (side, (values, codes)) in subs.zip(codes.as_chunks::<16>().0).enumerate() {
                    let (step, offset) = scale(8 * half + 2 * pair + side);
                    for (value, &code) in values.iter_mut().zip(codes) {
                        *value = step * f32::from(code >> (2 * pair) & 3) - offset;
                    }
                }
            }
        }
    }
}

/// Encodes a super-block; false when a half-precision scale overflowed.
fn encode(block: &[f32; LEN], target: &mut [u8; BYTES]) -> bool {
    const SEARCH: Search = Search { most: 3.0, first: -0.5, last: 15 };
    const HALF: usize = WIDTH * SUB_LEN;
    let mut codes = [0; LEN];
    let (mut scales, mut offsets) = ([0.0; SUB_BLOCKS], [0.0; SUB_BLOCKS]);
    for half in 0..2 {
        let x: Columns<SUB_LEN> = columns(&block[half * HALF..(half + 1) * HALF]);
        let weights = x.map(|column| column.map(f32::abs));
        let found = fit::<SUB_LEN, true>(&x, &weights, &SEARCH);
        scales[half * WIDTH..(half + 1) * WIDTH].copy_from_slice(&found.scale);
        offsets[half * WIDTH..(half + 1) * WIDTH].copy_from_slice(&found.offset);
        rows(&found.codes, &mut codes[half * HALF..(half + 1) * HALF]);
    }

    let (most_scale, most_offset) = (largest(&scales), largest(&offsets));
    let (mut d, mut dmin) = (0.0, 0.0);
    target[..SUB_BLOCKS].fill(0);
    if most_scale > 0.0 {
        let inverse = 15.0 / most_scale;
        for (pair, scale) in target.iter_mut().zip(scales) {
            *pair = nearest(inverse * scale) as u8;
        }
        d = most_scale / 15.0;
    }
    if most_offset > 0.0 {
        let inverse = 15.0 / most_offset;
        for (pair, offset) in target.iter_mut().zip(offsets) {
            *pair |= (nearest(inverse * offset) << 4) as u8;
        }
        dmin = most_offset / 15.0;
    }
    let (d, dmin) = (put_half(target, 80, d), put_half(target, 82, dmin));
    let subs = block.chunks_exact(SUB_LEN).zip(codes.chunks_exact_mut(SUB_LEN));
    for ((block, codes), &pair) in subs.zip(target.iter()) {
        let (step, offset) = (d * f32::from(pair & 15), dmin * f32::from(pair >> 4));
        requantise(block, codes, step, offset, 0, 3);
    }
    pack_pairs(&codes, &mut target[16..80]);
    d.is_finite() && dmin.is_finite()
}
