//! The common form of all block encodings, and the order of their sums.
//!
//! A row of weights is taken in groups of 256 values: eight blocks of 32, or one K-quant
//! super-block; the last group of a `q8` or `q4` row may be short. In block `j` of a group, with
//! codes `u`, the encoding's offset `o`, an integer multiplier `f` and minimum `n` per half block,
//! and activation codes `x` under the scale `d`:
//!
//! ```text
//! product  = Σ f·Σ (u − o)·x      over the 2 halves and their 16 values, an exact integer of 32 bits
//! minimum  = Σ n·Σ x              likewise
//! lane[j] += d · (scale[j]·product − minimum_scale·minimum)
//! ```
//!
//! and at the end of the row the eight lanes are added pairwise ([`add_lanes`]) and multiplied by
//! the encoding's unit ([`unit`]). Multiplications and additions are rounded one by one. Every
//! kernel for block encodings follows this to the bit.
//!
//! [`add_lanes`]: super::super::math::add_lanes

use half::f16;
use tallow_format::Encoding;

/// Values per group.
pub(super) const GROUP: usize = 256;
/// Values per block.
pub(super) const BLOCK: usize = 32;
/// Blocks per group, which are also the lanes of the sum.
pub(super) const BLOCKS: usize = 8;
/// Half blocks per group.
pub(super) const HALVES: usize = 16;

/// One group of a row in common form. The blocks past the end of a short group have the scale 0.
#[derive(Clone)]
#[repr(align(32))]
pub(super) struct Group {
    /// `u`: the codes, without sign.
    pub(super) codes: [u8; GROUP],
    /// `f`: the integer multiplier of each half block.
    pub(super) factors: [i16; HALVES],
    /// `n`: the integer minimum of each half block.
    pub(super) minimums: [i16; HALVES],
    /// The scale of each block.
    pub(super) scales: [f32; BLOCKS],
    /// The scale of the minimums.
    pub(super) minimum_scale: f32,
}

impl Group {
    /// A group of zeros.
    pub(super) const ZERO: Self = Self {
        codes: [0; GROUP],
        factors: [0; HALVES],
        minimums: [0; HALVES],
        scales: [0.0; BLOCKS],
        minimum_scale: 0.0,
    };
}

/// Whether an encoding has minimums.
pub(super) const fn has_minimums(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Q2K | Encoding::Q4K | Encoding::Q5K)
}

/// `o`: what is added to the signed codes of an encoding to store them without a sign.
pub(super) const fn offset(encoding: Encoding) -> i16 {
    match encoding {
        Encoding::Q8 => 128,
        Encoding::Q4 => 8,
        Encoding::Q3K => 4,
        Encoding::Q6K => 32,
        _ => 0,
    }
}

/// The factor on the sum of a row.
pub(super) const fn unit(encoding: Encoding) -> f32 {
    match encoding {
        Encoding::Q8 => 1.0 / 32_512.0,
        Encoding::Q4 => 1.0 / 2048.0,
        _ => 1.0,
    }
}

/// Bytes per group.
pub(super) fn group_bytes(encoding: Encoding) -> usize {
    encoding.block_bytes() * (GROUP / encoding.block_len().max(1))
}

/// Brings the bytes of one group into common form. `bytes` are whole blocks of a block encoding,
/// as many as a group has or, at the end of a row, fewer.
#[inline(always)]
pub(super) fn unpack(encoding: Encoding, bytes: &[u8], group: &mut Group) {
    unpack_codes(encoding, bytes, &mut group.codes);
    unpack_scales(encoding, bytes, group);
}

/// The part of [`unpack`] that fills the codes.
#[inline(always)]
pub(in super::super) fn unpack_codes(encoding: Encoding, bytes: &[u8], codes: &mut [u8; GROUP]) {
    match encoding {
        Encoding::Q8 => {
            for (block, codes) in bytes.chunks_exact(34).zip(codes.as_chunks_mut::<32>().0) {
                // A signed byte plus 128.
                fill(codes, &block[2..], &block[2..], |a, _| a ^ 0x80);
            }
        }
        Encoding::Q4 => {
            for (block, codes) in bytes.chunks_exact(18).zip(codes.as_chunks_mut::<32>().0) {
                let (first, second) = codes.split_at_mut(16);
                fill(first, &block[2..], &block[2..], |a, _| a & 15);
                fill(second, &block[2..], &block[2..], |a, _| a >> 4);
            }
        }
        Encoding::Q2K => two_bits(&bytes[16..80], codes),
        Encoding::Q3K => {
            two_bits(&bytes[32..96], codes);
            for (j, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (code, &high) in codes.iter_mut().zip(&bytes[..32]) {
                    *code |= if high & 1 << j != 0 { 4 } else { 0 };
                }
            }
        }
        Encoding::Q4K => nibbles(&bytes[16..144], codes),
        Encoding::Q5K => {
            nibbles(&bytes[48..176], codes);
            for (j, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (code, &high) in codes.iter_mut().zip(&bytes[16..48]) {
                    *code |= if high & 1 << j != 0 { 16 } else { 0 };
                }
            }
        }
        Encoding::Q6K => {
            let low = bytes[..128].as_chunks::<64>().0;
            let high = bytes[128..192].as_chunks::<32>().0;
            let parts = codes.as_chunks_mut::<128>().0;
            for ((low, high), codes) in low.iter().zip(high).zip(parts) {
                let (first, second) = low.split_at(32);
                fill(&mut codes[..32], first, high, |a, b| a & 15 | (b & 3) << 4);
                fill(&mut codes[32..64], second, high, |a, b| a & 15 | (b >> 2 & 3) << 4);
                fill(&mut codes[64..96], first, high, |a, b| a >> 4 | (b >> 4 & 3) << 4);
                fill(&mut codes[96..], second, high, |a, b| a >> 4 | (b >> 6) << 4);
            }
        }
        // Values without a shared scale have no groups: the callers check for block encodings.
        Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
    }
}

/// Fills codes from two lines of bytes.
#[inline(always)]
fn fill(codes: &mut [u8], a: &[u8], b: &[u8], f: impl Fn(u8, u8) -> u8) {
    for ((code, &a), &b) in codes.iter_mut().zip(a).zip(b) {
        *code = f(a, b);
    }
}

/// The 4-bit codes of `q4k` and the low bits of `q5k`: 32 bytes hold two consecutive blocks.
#[inline(always)]
fn nibbles(bytes: &[u8], codes: &mut [u8; GROUP]) {
    for (part, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<64>().0) {
        fill(&mut codes[..32], part, part, |a, _| a & 15);
        fill(&mut codes[32..], part, part, |a, _| a >> 4);
    }
}

/// The 2-bit codes of `q2k` and the low bits of `q3k`: 32 bytes hold four consecutive blocks.
#[inline(always)]
fn two_bits(bytes: &[u8], codes: &mut [u8; GROUP]) {
    for (part, codes) in bytes.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<128>().0) {
        fill(&mut codes[..32], part, part, |a, _| a & 3);
        fill(&mut codes[32..64], part, part, |a, _| a >> 2 & 3);
        fill(&mut codes[64..96], part, part, |a, _| a >> 4 & 3);
        fill(&mut codes[96..], part, part, |a, _| a >> 6);
    }
}

/// The part of [`unpack`] that fills everything but the codes.
#[inline(always)]
pub(super) fn unpack_scales(encoding: Encoding, bytes: &[u8], group: &mut Group) {
    match encoding {
        Encoding::Q8 | Encoding::Q4 => {
            group.factors = [1; HALVES];
            group.scales = [0.0; BLOCKS];
            let blocks = bytes.chunks_exact(encoding.block_bytes());
            for (scale, block) in group.scales.iter_mut().zip(blocks) {
                *scale = u16::from_le_bytes([block[0], block[1]]).into();
            }
        }
        Encoding::Q2K => {
            for (half, &byte) in bytes.iter().enumerate().take(HALVES) {
                group.factors[half] = (byte & 15).into();
                group.minimums[half] = (byte >> 4).into();
            }
            group.scales = [half_at(bytes, 80); BLOCKS];
            group.minimum_scale = half_at(bytes, 82);
        }
        Encoding::Q3K => {
            let scales = &bytes[96..108];
            for half in 0..HALVES {
                let low = if half < 8 { scales[half] & 15 } else { scales[half - 8] >> 4 };
                let top = scales[8 + half % 4] >> (half / 4 * 2) & 3;
                group.factors[half] = i16::from(low | top << 4) - 32;
            }
            group.scales = [half_at(bytes, 108); BLOCKS];
        }
        Encoding::Q4K | Encoding::Q5K => {
            let scales = &bytes[4..16];
            for j in 0..BLOCKS {
                let (scale, minimum) = if j < 4 {
                    (scales[j] & 63, scales[j + 4] & 63)
                } else {
                    ((scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4, (scales[j + 4] >> 4) | (scales[j] >> 6) << 4)
                };
                for half in [2 * j, 2 * j + 1] {
                    group.factors[half] = scale.into();
                    group.minimums[half] = minimum.into();
                }
            }
            group.scales = [half_at(bytes, 0); BLOCKS];
            group.minimum_scale = half_at(bytes, 2);
        }
        Encoding::Q6K => {
            for (factor, &scale) in group.factors.iter_mut().zip(&bytes[192..208]) {
                *factor = (scale as i8).into();
            }
            group.scales = [half_at(bytes, 208); BLOCKS];
        }
        // As in `unpack_codes`.
        Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
    }
}

/// A half-precision number at `at`.
#[inline(always)]
fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
