//! The tensor types of GGUF files, as sources of an import.

use super::{Encoding, EncodingError, check_decode, kquant};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Values per block of the types with one scale per 32 values.
const LEN: usize = 32;

/// A GGUF tensor type that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the names are those of GGUF's types")]
pub enum GgmlType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// 4-bit codes less 8, one half-precision scale.
    Q4_0,
    /// 4-bit codes, a half-precision scale and a minimum.
    Q4_1,
    /// 5-bit codes less 16, one half-precision scale.
    Q5_0,
    /// 5-bit codes, a half-precision scale and a minimum.
    Q5_1,
    /// Signed bytes, one half-precision scale.
    Q8_0,
    /// As [`Encoding::Q2K`].
    Q2K,
    /// As [`Encoding::Q3K`].
    Q3K,
    /// As [`Encoding::Q4K`].
    Q4K,
    /// As [`Encoding::Q5K`].
    Q5K,
    /// As [`Encoding::Q6K`].
    Q6K,
}

/// A GGUF type number that is not a [`GgmlType`]: another type of GGUF's, or a number that no
/// known type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("unsupported tensor type {} ({tag})", type_name(*.tag).unwrap_or("unknown"))]
pub struct UnsupportedType {
    /// The number in the file.
    pub tag: u32,
}

impl GgmlType {
    /// Every type, in the order of the enumeration.
    pub const ALL: [GgmlType; 13] = [
        GgmlType::F32,
        GgmlType::F16,
        GgmlType::BF16,
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::Q8_0,
        GgmlType::Q2K,
        GgmlType::Q3K,
        GgmlType::Q4K,
        GgmlType::Q5K,
        GgmlType::Q6K,
    ];

    /// The type of a number in a GGUF file.
    ///
    /// # Errors
    /// [`UnsupportedType`] for every other number, with GGUF's name for it where it has one.
    pub fn from_tag(tag: u32) -> Result<Self, UnsupportedType> {
        Self::ALL.into_iter().find(|ty| ty.tag() == tag).ok_or(UnsupportedType { tag })
    }

    /// The number that GGUF files give the type.
    pub fn tag(self) -> u32 {
        match self {
            GgmlType::F32 => 0,
            GgmlType::F16 => 1,
            GgmlType::BF16 => 30,
            GgmlType::Q4_0 => 2,
            GgmlType::Q4_1 => 3,
            GgmlType::Q5_0 => 6,
            GgmlType::Q5_1 => 7,
            GgmlType::Q8_0 => 8,
            GgmlType::Q2K => 10,
            GgmlType::Q3K => 11,
            GgmlType::Q4K => 12,
            GgmlType::Q5K => 13,
            GgmlType::Q6K => 14,
        }
    }

    /// GGUF's name, such as `"Q4_K"`.
    pub fn name(self) -> &'static str {
        type_name(self.tag()).unwrap_or("unknown")
    }

    /// Values per block.
    pub fn block_len(self) -> usize {
        match self {
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => 1,
            GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q8_0 => LEN,
            GgmlType::Q2K | GgmlType::Q3K | GgmlType::Q4K | GgmlType::Q5K | GgmlType::Q6K => kquant::LEN,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            GgmlType::F32 => 4,
            GgmlType::F16 | GgmlType::BF16 => 2,
            GgmlType::Q4_0 => 18,
            GgmlType::Q4_1 => 20,
            GgmlType::Q5_0 => 22,
            GgmlType::Q5_1 => 24,
            GgmlType::Q8_0 => 34,
            GgmlType::Q2K => kquant::q2k::BYTES,
            GgmlType::Q3K => kquant::q3k::BYTES,
            GgmlType::Q4K => kquant::q4k::BYTES,
            GgmlType::Q5K => kquant::q5k::BYTES,
            GgmlType::Q6K => kquant::q6k::BYTES,
        }
    }

    /// Bytes that `values` values take; `None` when they are not whole blocks or on overflow.
    pub fn byte_len(self, values: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !values.is_multiple_of(block) {
            return None;
        }
        (values / block).checked_mul(self.block_bytes() as u64)
    }

    /// The encoding with the very same bytes: that of a K-quant.
    pub fn same_bytes(self) -> Option<Encoding> {
        match self {
            GgmlType::Q2K => Some(Encoding::Q2K),
            GgmlType::Q3K => Some(Encoding::Q3K),
            GgmlType::Q4K => Some(Encoding::Q4K),
            GgmlType::Q5K => Some(Encoding::Q5K),
            GgmlType::Q6K => Some(Encoding::Q6K),
            GgmlType::F32
            | GgmlType::F16
            | GgmlType::BF16
            | GgmlType::Q4_0
            | GgmlType::Q4_1
            | GgmlType::Q5_0
            | GgmlType::Q5_1
            | GgmlType::Q8_0 => None,
        }
    }

    /// Decodes whole blocks, with the same bits as llama.cpp. Values or scales of the source
    /// that are not finite come through as they are.
    ///
    /// # Errors
    /// [`EncodingError::NotWholeBlocks`] and [`EncodingError::LengthMismatch`].
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) -> Result<(), EncodingError> {
        check_decode(bytes.len(), self.block_bytes(), out.len(), self.block_len())?;
        match self {
            GgmlType::F32 => {
                for (raw, value) in bytes.as_chunks::<4>().0.iter().zip(out) {
                    *value = f32::from_le_bytes(*raw);
                }
            }
            GgmlType::F16 => decode_f16(bytes, out),
            GgmlType::BF16 => {
                for (raw, value) in bytes.as_chunks::<2>().0.iter().zip(out) {
                    *value = f32::from_bits(u32::from(u16::from_le_bytes(*raw)) << 16);
                }
            }
            GgmlType::Q4_0 => decode_q4_0(bytes, out),
            GgmlType::Q4_1 => decode_q4_1(bytes, out),
            GgmlType::Q5_0 => decode_q5_0(bytes, out),
            GgmlType::Q5_1 => decode_q5_1(bytes, out),
            GgmlType::Q8_0 => decode_q8_0(bytes, out),
            GgmlType::Q2K => kquant::q2k::decode(bytes, out),
            GgmlType::Q3K => kquant::q3k::decode(bytes, out),
            GgmlType::Q4K => kquant::q4k::decode(bytes, out),
            GgmlType::Q5K => kquant::q5k::decode(bytes, out),
            GgmlType::Q6K => kquant::q6k::decode(bytes, out),
        }
        Ok(())
    }
}

/// GGUF's name for a type number, also of types that cannot be decoded and of those that GGUF
/// has withdrawn; `None` for a number that no known type has.
pub fn type_name(tag: u32) -> Option<&'static str> {
    Some(match tag {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        4 => "Q4_2",
        5 => "Q4_3",
        6 => "Q5_0",
        7 => "Q5_1",
        8 => "Q8_0",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        12 => "Q4_K",
        13 => "Q5_K",
        14 => "Q6_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        30 => "BF16",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        34 => "TQ1_0",
        35 => "TQ2_0",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        39 => "MXFP4",
        40 => "NVFP4",
        41 => "Q1_0",
        _ => return None,
    })
}

/// Half precision, widened exactly.
fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    const CHUNK: usize = 64;
    let mut halves = [f16::ZERO; CHUNK];
    for (bytes, values) in bytes.chunks(2 * CHUNK).zip(out.chunks_mut(CHUNK)) {
        for (raw, half) in bytes.as_chunks::<2>().0.iter().zip(&mut halves) {
            *half = f16::from_le_bytes(*raw);
        }
        halves[..values.len()].convert_to_f32_slice(values);
    }
}

/// `(nibble − 8) · d`; low nibbles first, then the high ones.
fn decode_q4_0(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<18>().0.iter();
    for (block, values) in blocks.zip(out.as_chunks_mut::<LEN>().0) {
        let [d0, d1, codes @ ..] = block;
        let d = f16::from_le_bytes([*d0, *d1]).to_f32();
        let (first, second) = values.split_at_mut(LEN / 2);
        for ((&code, first), second) in codes.iter().zip(first).zip(second) {
            *first = (f32::from(code & 15) - 8.0) * d;
            *second = (f32::from(code >> 4) - 8.0) * d;
        }
    }
}

/// `nibble · d + m`; low nibbles first, then the high ones.
fn decode_q4_1(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<20>().0.iter();
    for (block, values) in blocks.zip(out.as_chunks_mut::<LEN>().0) {
        let [d0, d1, m0, m1, codes @ ..] = block;
        let d = f16::from_le_bytes([*d0, *d1]).to_f32();
        let m = f16::from_le_bytes([*m0, *m1]).to_f32();
        let (first, second) = values.split_at_mut(LEN / 2);
        for ((&code, first), second) in codes.iter().zip(first).zip(second) {
            *first = f32::from(code & 15) * d + m;
            *second = f32::from(code >> 4) * d + m;
        }
    }
}

/// The 5-bit codes of a block, from their fifth bits and the nibbles as in Q4_0.
#[inline]
fn five_bits(high: [u8; 4], codes: &[u8; LEN / 2]) -> [f32; LEN] {
    let high = u32::from_le_bytes(high);
    std::array::from_fn(|place| {
        let low = codes[place % 16] >> (place / 16 * 4) & 15;
        f32::from(low | ((high >> place & 1) << 4) as u8)
    })
}

/// `(code − 16) · d`.
fn decode_q5_0(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<22>().0.iter();
    for (block, values) in blocks.zip(out.as_chunks_mut::<LEN>().0) {
        let [d0, d1, h0, h1, h2, h3, codes @ ..] = block;
        let d = f16::from_le_bytes([*d0, *d1]).to_f32();
        *values = five_bits([*h0, *h1, *h2, *h3], codes).map(|code| (code - 16.0) * d);
    }
}

/// `code · d + m`.
fn decode_q5_1(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<24>().0.iter();
    for (block, values) in blocks.zip(out.as_chunks_mut::<LEN>().0) {
        let [d0, d1, m0, m1, h0, h1, h2, h3, codes @ ..] = block;
        let d = f16::from_le_bytes([*d0, *d1]).to_f32();
        let m = f16::from_le_bytes([*m0, *m1]).to_f32();
        *values = five_bits([*h0, *h1, *h2, *h3], codes).map(|code| code * d + m);
    }
}

/// `i8 · d`.
fn decode_q8_0(bytes: &[u8], out: &mut [f32]) {
    let blocks = bytes.as_chunks::<34>().0.iter();
    for (block, values) in blocks.zip(out.as_chunks_mut::<LEN>().0) {
        let [d0, d1, codes @ ..] = block;
        let d = f16::from_le_bytes([*d0, *d1]).to_f32();
        for (&code, value) in codes.iter().zip(values) {
            *value = f32::from(code as i8) * d;
        }
    }
}
