//! The ten encodings in which a `.model` file stores the values of a tensor.
//!
//! Everything is little-endian, and a row of a matrix is a whole number of blocks. A scale of
//! `q8` and `q4` is an unsigned 8.8 fixed-point number that encoders keep at or below
//! [`MAX_SCALE`], because other readers take it as signed. [`gguf`] decodes the block types of
//! GGUF files, which are sources of an import and never stored.

mod error;
mod fixed;
pub mod gguf;
mod kquant;
mod meter;
mod q4;
mod q8;
mod ternary;

pub use error::EncodingError;
pub use meter::{ErrorMeter, relative_rms_error};

/// The largest scale, in units of 1/256, that an encoder stores in a `q8` or `q4` block.
pub const MAX_SCALE: u16 = 32_767;

/// How the values of one tensor are stored.
///
/// | name | values per block | bytes per block | value |
/// |---|---|---|---|
/// | `u32` | 1 | 4 | `i32 / 65536` |
/// | `u16` | 1 | 2 | `i16 / 256` |
/// | `q8` | 32 | 34 | `i8 × scale / 32512` |
/// | `q4` | 32 | 18 | `(nibble − 8) × scale / 2048` |
/// | `ternary` | 4 | 1 | 2 bits: `00` 0, `01` +1, `10` −1 |
/// | `q2k` … `q6k` | 256 | 84, 110, 144, 176, 210 | GGUF's K-quants |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// Signed 16.16 fixed point.
    U32,
    /// Signed 8.8 fixed point.
    U16,
    /// 32 signed bytes under one 8.8 scale.
    Q8,
    /// 32 nibbles under one 8.8 scale.
    Q4,
    /// Four values of {−1, 0, +1} per byte, lowest bits first.
    Ternary,
    /// GGUF's `Q2_K`: 2-bit codes, 4-bit scales and minimums per 16 values.
    Q2K,
    /// GGUF's `Q3_K`: 3-bit codes, 6-bit scales per 16 values.
    Q3K,
    /// GGUF's `Q4_K`: 4-bit codes, 6-bit scales and minimums per 32 values.
    Q4K,
    /// GGUF's `Q5_K`: 5-bit codes, 6-bit scales and minimums per 32 values.
    Q5K,
    /// GGUF's `Q6_K`: 6-bit codes, 8-bit scales per 16 values.
    Q6K,
}

impl Encoding {
    /// Every encoding, in the order of the table above.
    pub const ALL: [Encoding; 10] = [
        Encoding::U32,
        Encoding::U16,
        Encoding::Q8,
        Encoding::Q4,
        Encoding::Ternary,
        Encoding::Q2K,
        Encoding::Q3K,
        Encoding::Q4K,
        Encoding::Q5K,
        Encoding::Q6K,
    ];

    /// The name that a tensor's entry gives, such as `"q4k"`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::U32 => "u32",
            Encoding::U16 => "u16",
            Encoding::Q8 => "q8",
            Encoding::Q4 => "q4",
            Encoding::Ternary => "ternary",
            Encoding::Q2K => "q2k",
            Encoding::Q3K => "q3k",
            Encoding::Q4K => "q4k",
            Encoding::Q5K => "q5k",
            Encoding::Q6K => "q6k",
        }
    }

    /// The encoding of that exact name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == name)
    }

    /// Values per block.
    pub fn block_len(self) -> usize {
        match self {
            Encoding::U32 | Encoding::U16 => 1,
            Encoding::Q8 => q8::LEN,
            Encoding::Q4 => q4::LEN,
            Encoding::Ternary => ternary::LEN,
            Encoding::Q2K | Encoding::Q3K | Encoding::Q4K | Encoding::Q5K | Encoding::Q6K => kquant::LEN,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            Encoding::U32 => 4,
            Encoding::U16 => 2,
            Encoding::Q8 => q8::BYTES,
            Encoding::Q4 => q4::BYTES,
            Encoding::Ternary => 1,
            Encoding::Q2K => kquant::q2k::BYTES,
            Encoding::Q3K => kquant::q3k::BYTES,
            Encoding::Q4K => kquant::q4k::BYTES,
            Encoding::Q5K => kquant::q5k::BYTES,
            Encoding::Q6K => kquant::q6k::BYTES,
        }
    }

    /// The alignment, in bytes, of a tensor's offset in the weights section.
    pub fn alignment(self) -> u64 {
        match self {
            Encoding::U32 => 4,
            Encoding::U16
            | Encoding::Q8
            | Encoding::Q4
            | Encoding::Q2K
            | Encoding::Q3K
            | Encoding::Q4K
            | Encoding::Q5K
            | Encoding::Q6K => 2,
            Encoding::Ternary => 1,
        }
    }

    /// Whether values share a scale: `q8`, `q4` and the K-quants.
    pub fn is_block(self) -> bool {
        self.block_len() >= 32
    }

    /// Bytes that `values` values take; `None` when they are not whole blocks or on overflow.
    pub fn byte_len(self, values: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !values.is_multiple_of(block) {
            return None;
        }
        (values / block).checked_mul(self.block_bytes() as u64)
    }

    /// Decodes whole blocks into the values that they stand for.
    ///
    /// K-quants give the same bits as llama.cpp. A K-quant whose half-precision scale is not
    /// finite decodes to values that are not finite: [`Encoding::check`] reports it.
    ///
    /// # Errors
    /// [`EncodingError::NotWholeBlocks`] when `bytes` are not whole blocks,
    /// [`EncodingError::LengthMismatch`] when `out` holds another number of values, and
    /// [`EncodingError::InvalidTernary`] for the code `11`; `out` then holds values before it.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) -> Result<(), EncodingError> {
        check_decode(bytes.len(), self.block_bytes(), out.len(), self.block_len())?;
        match self {
            Encoding::U32 => fixed::decode_u32(bytes, out),
            Encoding::U16 => fixed::decode_u16(bytes, out),
            Encoding::Q8 => q8::decode(bytes, out),
            Encoding::Q4 => q4::decode(bytes, out),
            Encoding::Ternary => ternary::decode(bytes, out)?,
            Encoding::Q2K => kquant::q2k::decode(bytes, out),
            Encoding::Q3K => kquant::q3k::decode(bytes, out),
            Encoding::Q4K => kquant::q4k::decode(bytes, out),
            Encoding::Q5K => kquant::q5k::decode(bytes, out),
            Encoding::Q6K => kquant::q6k::decode(bytes, out),
        }
        Ok(())
    }

    /// Appends the encoding of `values`, which must be whole blocks, to `out`.
    ///
    /// `u32` and `u16` round to the nearest step. `q8` and `q4` choose the stored scale first
    /// and quantise against it; the least squared error wins, and of equal errors the smaller
    /// scale. K-quants give the bytes of llama.cpp's reference quantiser without an importance
    /// matrix. A block's values are independent of its neighbours, so rows can be encoded in
    /// any chunks of whole blocks.
    ///
    /// # Errors
    /// [`EncodingError::NotWholeBlocks`], [`EncodingError::NotFinite`],
    /// [`EncodingError::OutOfRange`] and, for `ternary`, [`EncodingError::NotTernary`], with
    /// the index of the value in `values`. `out` is then as it was.
    pub fn encode(self, values: &[f32], out: &mut Vec<u8>) -> Result<(), EncodingError> {
        let block = self.block_len();
        if !values.len().is_multiple_of(block) {
            return Err(EncodingError::NotWholeBlocks { len: values.len(), block });
        }
        let start = out.len();
        let done = match self {
            Encoding::U32 => fixed::encode_u32(values, out),
            Encoding::U16 => fixed::encode_u16(values, out),
            Encoding::Q8 => q8::encode(values, out),
            Encoding::Q4 => q4::encode(values, out),
            Encoding::Ternary => ternary::encode(values, out),
            Encoding::Q2K => kquant::encode(values, out, kquant::q2k::ENCODER),
            Encoding::Q3K => kquant::encode(values, out, kquant::q3k::ENCODER),
            Encoding::Q4K => kquant::encode(values, out, kquant::q4k::ENCODER),
            Encoding::Q5K => kquant::encode(values, out, kquant::q5k::ENCODER),
            Encoding::Q6K => kquant::encode(values, out, kquant::q6k::ENCODER),
        };
        if done.is_err() {
            out.truncate(start);
        }
        done
    }

    /// Checks stored bytes without decoding them: ternary codes, and that the half-precision
    /// scales of K-quants are finite. Every byte sequence of the other encodings is valid.
    ///
    /// # Errors
    /// [`EncodingError::NotWholeBlocks`], [`EncodingError::InvalidTernary`], or
    /// [`EncodingError::NotFinite`] with the index of the first value of the super-block.
    pub fn check(self, bytes: &[u8]) -> Result<(), EncodingError> {
        let block = self.block_bytes();
        if !bytes.len().is_multiple_of(block) {
            return Err(EncodingError::NotWholeBlocks { len: bytes.len(), block });
        }
        match self {
            Encoding::U32 | Encoding::U16 | Encoding::Q8 | Encoding::Q4 => Ok(()),
            Encoding::Ternary => ternary::check(bytes),
            Encoding::Q2K => kquant::check_scales(bytes, block, &[80, 82]),
            Encoding::Q3K => kquant::check_scales(bytes, block, &[108]),
            Encoding::Q4K | Encoding::Q5K => kquant::check_scales(bytes, block, &[0, 2]),
            Encoding::Q6K => kquant::check_scales(bytes, block, &[208]),
        }
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::from_name(name).ok_or_else(|| UnknownEncoding(name.to_owned()))
    }
}

/// A name that is none of the ten encodings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown encoding {0:?}; use one of u32, u16, q8, q4, ternary, q2k, q3k, q4k, q5k, q6k")]
pub struct UnknownEncoding(
    /// The name as it was given.
    pub String,
);

/// Checks that `bytes` are whole blocks and `values` their number of values.
fn check_decode(bytes: usize, block_bytes: usize, values: usize, block_len: usize) -> Result<(), EncodingError> {
    if !bytes.is_multiple_of(block_bytes) {
        return Err(EncodingError::NotWholeBlocks { len: bytes, block: block_bytes });
    }
    let blocks = bytes / block_bytes;
    if blocks.checked_mul(block_len) != Some(values) {
        return Err(EncodingError::LengthMismatch { blocks, block: block_len, values });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
