//! The codes of blocks as they lie in a file.

use super::layout::GROUP;
use tallow_format::Encoding;

/// Brings the codes of one group of a row, without sign, into the order of columns. `bytes` are whole blocks of a block
/// encoding, as many as a group has or, at the end of a row, fewer.
#[inline(always)]
pub(super) fn unpack_codes(encoding: Encoding, bytes: &[u8], codes: &mut [u8; GROUP]) {
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
        // Not packed.
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
