//! The packed 6-bit scales and minimums that q4k and q5k share, and the search that fills them.
//!
//! Eight scales and eight minimums stand in twelve bytes: bytes 0–3 hold scales 0–3 and bytes
//! 4–7 minimums 0–3 in their low six bits; bytes 8–11 hold the low four bits of scales 4–7
//! (low nibble) and minimums 4–7 (high nibble), whose upper two bits are the upper two of bytes
//! 0–3 and 4–7.

use super::affine::{Search, fit};
use super::lanes::{Columns, columns, nearest, rows};
use super::{LEN, put_half, requantise};

/// Bytes of the packed scales and minimums.
pub(super) const PACKED: usize = 12;

/// Sub-blocks of a super-block, and the values of each.
const SUB_BLOCKS: usize = 8;
pub(super) const SUB_LEN: usize = 32;

/// Unpacks the eight pairs of scale and minimum, each below 64.
#[inline]
pub(super) fn unpack(packed: &[u8; PACKED]) -> [(u8, u8); SUB_BLOCKS] {
    std::array::from_fn(|sub| {
        if sub < 4 {
            (packed[sub] & 63, packed[sub + 4] & 63)
        } else {
            (packed[sub + 4] & 15 | packed[sub - 4] >> 6 << 4, packed[sub + 4] >> 4 | packed[sub] >> 6 << 4)
        }
    })
}

/// Packs eight pairs of scale and minimum, each below 64.
pub(super) fn pack(pairs: &[(u8, u8); SUB_BLOCKS]) -> [u8; PACKED] {
    std::array::from_fn(|byte| match byte {
        0..4 => pairs[byte].0 | pairs[byte + 4].0 >> 4 << 6,
        4..8 => pairs[byte - 4].1 | pairs[byte].1 >> 4 << 6,
        _ => pairs[byte - 4].0 & 15 | (pairs[byte - 4].1 & 15) << 4,
    })
}

/// Searches a super-block, writes its two half-precision scales and its packed scales to the
/// first 16 bytes of `target`, and gives the codes. `None` when a half-precision scale
/// overflowed.
pub(super) fn encode(block: &[f32; LEN], search: &Search, target: &mut [u8]) -> Option<[i32; LEN]> {
    let x: Columns<SUB_LEN> = columns(block);
    let mut square = [0.0_f32; SUB_BLOCKS];
    for column in &x {
        for (sum, &value) in square.iter_mut().zip(column) {
            *sum += value * value;
        }
    }
    let typical = square.map(|sum| (sum / SUB_LEN as f32).sqrt());
    let weights = x.map(|column| std::array::from_fn(|sub| typical[sub] + column[sub].abs()));
    let found = fit::<SUB_LEN, false>(&x, &weights, search);

    let most_scale = largest(&found.scale);
    let most_offset = largest(&found.offset);
    let inverse = |most: f32| if most > 0.0 { 63.0 / most } else { 0.0 };
    let (per_scale, per_offset) = (inverse(most_scale), inverse(most_offset));
    let pairs = std::array::from_fn(|sub| {
        // A negative scale wraps to the largest, as in the reference.
        let scale = nearest(per_scale * found.scale[sub]) as u8;
        let offset = nearest(per_offset * found.offset[sub]) as u8;
        (scale.min(63), offset.min(63))
    });
    let scale = put_half(target, 0, most_scale / 63.0);
    let offset = put_half(target, 2, most_offset / 63.0);
    target[4..4 + PACKED].copy_from_slice(&pack(&pairs));

    let mut codes = [0; LEN];
    rows(&found.codes, &mut codes);
    let subs = block.chunks_exact(SUB_LEN).zip(codes.chunks_exact_mut(SUB_LEN));
    for ((block, codes), (sub_scale, sub_offset)) in subs.zip(pairs) {
        let (step, offset) = (scale * f32::from(sub_scale), offset * f32::from(sub_offset));
        requantise(block, codes, step, offset, 0, search.most as i32);
    }
    (scale.is_finite() && offset.is_finite()).then_some(codes)
}

/// The largest of numbers, at least 0.
pub(super) fn largest(numbers: &[f32]) -> f32 {
    let larger = |most, &number| if number > most { number } else { most };
    numbers.iter().fold(0.0, larger)
}
