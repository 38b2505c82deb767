//! `q6k`, GGUF's Q6_K: 16 sub-blocks of 16 values of 6 bits.
//!
//! A super-block of 210 bytes: 128 bytes with the low four bits of the codes, 64 bytes with
//! their upper two, 16 signed scales, and the half-precision scale of the scales. For each 128
//! values, low byte `i` of 64 holds value `i` and, in its high nibble, value `i + 64`; upper
//! byte `i` of 32 holds values `i`, `i + 32`, `i + 64` and `i + 96`. A value is
//! `d · scale · (code − 32)`.

use super::lanes::{Columns, WIDTH, columns, nearest, rows};
use super::q3k::signed_largest;
use super::symmetric::{LEAST_MAGNITUDE, fit_by_spread};
use super::{Encoder, F16_MAX, LEN, half_at, put_half, requantise};

/// Bytes per super-block.
pub(in crate::encoding) const BYTES: usize = 210;

/// Values per sub-block.
const SUB_LEN: usize = 16;
const SUB_BLOCKS: usize = 16;

/// The encoder.
pub(in crate::encoding) const ENCODER: Encoder<BYTES> = Encoder { limit: F16_MAX * 128.0 * 32.0, block: encode };

/// Decodes; the caller has checked the lengths.
pub(in crate::encoding) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let d = half_at(block, 208);
        let steps: [f32; SUB_BLOCKS] = std::array::from_fn(|sub| d * f32::from(block[192 + sub] as i8));
        for (half, values) in values.as_chunks_mut::<128>().0.iter_mut().enumerate() {
            let low = block[64 * half..64 * half + 64].as_chunks::<16>().0;
            let high = block[128 + 32 * half..160 + 32 * half].as_chunks::<16>().0;
            for (sub, values) in values.as_chunks_mut::<SUB_LEN>().0.iter_mut().enumerate() {
                let step = steps[8 * half + sub];
                let (nibble, pair) = (sub / 4 * 4, sub / 2 * 2);
                let bytes = low[sub % 4].iter().zip(&high[sub % 2]);
                for (value, (&low, &high)) in values.iter_mut().zip(bytes) {
                    let code = low >> nibble & 15 | (high >> pair & 3) << 4;
                    *value = step * f32::from(code as i8 - 32);
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
        let found = fit_by_spread(&x, 32.0);
        scales[half * WIDTH..(half + 1) * WIDTH].copy_from_slice(&found.scale);
        rows(&found.codes, &mut codes[half * HALF..(half + 1) * HALF]);
    }
    target.fill(0);
    let most = signed_largest(&scales);
    if most.abs() < LEAST_MAGNITUDE {
        return true;
    }

    let inverse = -128.0 / most;
    let d = put_half(target, 208, 1.0 / inverse);
    let subs = block.chunks_exact(SUB_LEN).zip(codes.chunks_exact_mut(SUB_LEN));
    for (sub, ((block, codes), scale)) in subs.zip(scales).enumerate() {
        let scale = nearest(inverse * scale).min(127) as i8;
        target[192 + sub] = scale as u8;
        let step = d * f32::from(scale);
        if step != 0.0 {
            requantise(block, codes, step, 0.0, -32, 31);
            codes.iter_mut().for_each(|code| *code += 32);
        }
    }
    let (low, high) = target.split_at_mut(128);
    for (half, codes) in codes.as_chunks::<128>().0.iter().enumerate() {
        for place in 0..32 {
            let [a, b, c, d] = [0, 32, 64, 96].map(|start| codes[start + place]);
            low[64 * half + place] = (a & 15 | (c & 15) << 4) as u8;
            low[64 * half + 32 + place] = (b & 15 | (d & 15) << 4) as u8;
            high[32 * half + place] = (a >> 4 | b >> 4 << 2 | c >> 4 << 4 | d >> 4 << 6) as u8;
        }
    }
    d.is_finite()
}
