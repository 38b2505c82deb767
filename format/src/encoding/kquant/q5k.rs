//! `q5k`, GGUF's Q5_K: 8 sub-blocks of 32 values of 5 bits.
//!
//! A super-block of 176 bytes: the half-precision scale of the scales and that of the minimums,
//! 12 bytes of packed 6-bit scales and minimums, 32 bytes with the fifth bit of the codes (bit
//! `k` of byte `i` for value `32k + i`), and 128 bytes with their low four bits, laid out as in
//! q4k. A value is `d · scale · code − dmin · minimum`.

use super::affine::Search;
use super::scales::{self, SUB_LEN, unpack};
use super::{Encoder, F16_MAX, LEN, half_at};

/// Bytes per super-block.
pub(in crate::encoding) const BYTES: usize = 176;

/// The encoder; a minimum reaches 63 times the half-precision scale.
pub(in crate::encoding) const ENCODER: Encoder<BYTES> = Encoder { limit: F16_MAX * 63.0, block: encode };

/// Decodes; the caller has checked the lengths.
pub(in crate::encoding) fn decode(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<LEN>().0) {
        let (d, dmin) = (half_at(block, 0), half_at(block, 2));
        let Some((packed, rest)) = block[4..].split_first_chunk() else {
            continue;
        };
        let Some((high, codes)) = rest.split_first_chunk::<SUB_LEN>() else {
            continue;
        };
        let pairs = unpack(packed);
        let groups = codes.as_chunks::<SUB_LEN>().0.iter();
        let groups = groups.zip(values.as_chunks_mut::<64>().0);
        for (group, ((codes, values), pairs)) in groups.zip(pairs.as_chunks::<2>().0).enumerate() {
            let [(step1, offset1), (step2, offset2)] =
                pairs.map(|(scale, min)| (d * f32::from(scale), dmin * f32::from(min)));
            let (first, second) = values.split_at_mut(SUB_LEN);
            let bytes = codes.iter().zip(high);
            for (((&code, &high), first), second) in bytes.zip(first).zip(second) {
                let high = high >> (2 * group);
                *first = step1 * f32::from(code & 15 | (high & 1) << 4) - offset1;
                *second = step2 * f32::from(code >> 4 | (high & 2) << 3) - offset2;
            }
        }
    }
}

/// Encodes a super-block; false when a half-precision scale overflowed.
fn encode(block: &[f32; LEN], target: &mut [u8; BYTES]) -> bool {
    const SEARCH: Search = Search { most: 31.0, first: -0.5, last: 15 };
    let Some(codes) = scales::encode(block, &SEARCH, target) else {
        return false;
    };
    let (high, low) = target[16..].split_at_mut(SUB_LEN);
    high.fill(0);
    let groups = codes.as_chunks::<64>().0.iter();
    for (group, (codes, low)) in groups.zip(low.as_chunks_mut::<SUB_LEN>().0).enumerate() {
        let (first, second) = codes.split_at(SUB_LEN);
        let bytes = low.iter_mut().zip(high.iter_mut());
        for ((first, second), (low, high)) in first.iter().zip(second).zip(bytes) {
            *low = (first & 15 | (second & 15) << 4) as u8;
            *high |= ((first >> 4 | second >> 4 << 1) << (2 * group)) as u8;
        }
    }
    true
}
