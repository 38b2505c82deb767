//! `q4k`, GGUF's Q4_K: 8 sub-blocks of 32 values of 4 bits.
//!
//! A super-block of 144 bytes: the half-precision scale of the scales and that of the minimums,
//! 12 bytes of packed 6-bit scales and minimums, and 128 bytes of codes, where each 32 bytes
//! hold two sub-blocks: the first in the low nibbles, the second in the high ones. A value is
//! `d · scale · code − dmin · minimum`.

use super::affine::Search;
use super::scales::{self, SUB_LEN, unpack};
use super::{Encoder, F16_MAX, LEN, half_at};

/// Bytes per super-block.
pub(in crate::encoding) const BYTES: usize = 144;

/// The encoder; a minimum reaches 63 times the half-precision scale.
pub(in crate::encoding) const ENCODER: Encoder<BYTES> = Encoder { limit: F16_MAX * 63.0, block: encode };

/// Decodes; the caller has checked the lengths.
pub(in crate::encoding) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let (d, dmin) = (half_at(block, 0), half_at(block, 2));
        let Some((packed, codes)) = block[4..].split_first_chunk() else {
            continue;
        };
        let pairs = unpack(packed);
        let groups = codes.as_chunks::<SUB_LEN>().0.iter();
        let groups = groups.zip(values.as_chunks_mut::<64>().0);
        for ((codes, values), pairs) in groups.zip(pairs.as_chunks::<2>().0) {
            let [(step1, offset1), (step2, offset2)] =
                pairs.map(|(scale, min)| (d * f32::from(scale), dmin * f32::from(min)));
            let (first, second) = values.split_at_mut(SUB_LEN);
            for ((&code, first), second) in codes.iter().zip(first).zip(second) {
                *first = step1 * f32::from(code & 15) - offset1;
                *second = step2 * f32::from(code >> 4) - offset2;
            }
        }
    }
}

/// Encodes a super-block; false when a half-precision scale overflowed.
fn encode(block: &[f32; LEN], target: &mut [u8; BYTES]) -> bool {
    const SEARCH: Search = Search { most: 15.0, first: -1.0, last: 20 };
    let Some(codes) = scales::encode(block, &SEARCH, target) else {
        return false;
    };
    let groups = codes.as_chunks::<64>().0.iter();
    for (codes, bytes) in groups.zip(target[16..].as_chunks_mut::<SUB_LEN>().0) {
        let (first, second) = codes.split_at(SUB_LEN);
        for ((first, second), byte) in first.iter().zip(second).zip(bytes) {
            *byte = (first | second << 4) as u8;
        }
    }
    true
}
