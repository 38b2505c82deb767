//! Where the parts of a panel lie.
//!
//! A *quad* is 64 bytes of one vector: of each of the 16 rows in turn, the codes of four consecutive `k`. A block of 32
//! columns has eight quads. By encoding, a panel holds:
//!
//! - `q8`: the `u16` scales of all blocks (16 rows each), padded to 64 bytes; then for every block eight quads of codes
//!   plus 128;
//! - `q4`: the scales as for `q8`; then for every block four vectors of nibbles: vector `i` holds quad `i` in its low
//!   nibbles and quad `i + 4` in its high ones;
//! - K-quants: for every super-block of 256 a head of 320 bytes ([`HEAD`]) and eight blocks of codes. The head: `f16`
//!   scales of the 16 rows, `f16` scales of the minimums (or zeros), and 256 bytes of integer scales: for `q4k`, `q5k`
//!   eight times 16 scales, then eight times 16 minimums; for `q3k`, `q6k` sixteen times 16 signed scales; for `q2k`
//!   sixteen times 16 bytes of scale (low nibble) and minimum (high nibble). A block of codes: nibbles as in `q4`
//!   (`q4k`, `q5k`, `q6k`), or pairs of bits in two vectors, quad `j` at bits `2 (j mod 4)` of vector `j / 4` (`q2k`,
//!   `q3k`); then the high bits: for `q6k` pairs in the same way, for `q5k` and `q3k` one vector whose bit `j` belongs to
//!   quad `j`.
//!
//! Codes have no sign: an encoding's offset has been added. Rows past the last one are zeros.

use super::super::KernelError;
use tallow_format::Encoding;

/// Rows of a panel.
pub const PANEL: usize = 16;
/// Columns of a block.
pub(super) const BLOCK: usize = 32;
/// Columns of a group: what shares a scale of the activations, and a super-block of a K-quant.
pub(super) const GROUP: usize = 256;
/// Blocks of a group.
pub(super) const BLOCKS: usize = GROUP / BLOCK;
/// Bytes of a quad.
pub(super) const QUAD: usize = 64;
/// Bytes before the codes of a super-block of a K-quant.
pub(super) const HEAD: usize = 320;

/// Panels of a matrix of `rows` rows.
pub const fn panels(rows: usize) -> usize {
    rows.div_ceil(PANEL)
}

/// The layout of the panels of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) encoding: Encoding,
    pub(super) k: usize,
    /// Bytes of codes of a block.
    pub(super) block_bytes: usize,
    pub(super) panel_bytes: usize,
}

impl Layout {
    pub(super) fn new(encoding: Encoding, k: usize) -> Result<Self, KernelError> {
        let block_bytes = match encoding {
            Encoding::Q8 => 8 * QUAD,
            Encoding::Q4 | Encoding::Q4K => 4 * QUAD,
            Encoding::Q5K => 5 * QUAD,
            Encoding::Q6K => 6 * QUAD,
            Encoding::Q3K => 3 * QUAD,
            Encoding::Q2K => 2 * QUAD,
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {
                return Err(KernelError::Attribute {
                    what: "the encoding of a packed matrix",
                    value: encoding.name().to_owned(),
                    expected: "one of q8, q4, q2k, q3k, q4k, q5k, q6k",
                });
            }
        };
        let block = encoding.block_len();
        if !k.is_multiple_of(block) {
            return Err(KernelError::RowNotWholeBlocks { encoding, k, block });
        }
        let mut layout = Self { encoding, k, block_bytes, panel_bytes: 0 };
        let codes = (k / BLOCK).checked_mul(block_bytes);
        let size = codes.and_then(|codes| codes.checked_add(layout.heads_bytes()));
        let too_long = KernelError::Length { what: "row of a packed matrix", found: k, expected: usize::MAX };
        layout.panel_bytes = size.ok_or(too_long)?;
        Ok(layout)
    }

    /// Whether the scales of all blocks precede the codes.
    pub(super) const fn simple(&self) -> bool {
        matches!(self.encoding, Encoding::Q8 | Encoding::Q4)
    }

    /// Bytes of scales of a panel.
    fn heads_bytes(&self) -> usize {
        if self.simple() { (self.k / BLOCK * 2 * PANEL).next_multiple_of(QUAD) } else { self.k / GROUP * HEAD }
    }

    /// Where the codes of block `b` of a panel begin.
    #[inline(always)]
    pub(super) fn codes_at(&self, b: usize) -> usize {
        if self.simple() {
            self.heads_bytes() + b * self.block_bytes
        } else {
            (b / BLOCKS + 1) * HEAD + b * self.block_bytes
        }
    }

    /// Where the scales begin: those of block `b` for `q8` and `q4`, the head of its super-block for K-quants.
    #[inline(always)]
    pub(super) fn head_at(&self, b: usize) -> usize {
        if self.simple() { b * 2 * PANEL } else { b / BLOCKS * (HEAD + BLOCKS * self.block_bytes) }
    }
}

/// Whether an encoding has minimums.
pub(super) const fn has_minimums(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Q2K | Encoding::Q4K | Encoding::Q5K)
}

/// Whether scales belong to 16 columns, not 32.
pub(super) const fn has_halves(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Q2K | Encoding::Q3K | Encoding::Q6K)
}

/// What has been added to the signed codes of an encoding.
pub(super) const fn offset(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Q8 => 128,
        Encoding::Q4 => 8,
        Encoding::Q3K => 4,
        Encoding::Q6K => 32,
        _ => 0,
    }
}

/// The power of two by which codes are multiplied before their products: as far as they stay bytes.
pub(super) const fn factor(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Q8 => 1,
        Encoding::Q6K => 4,
        Encoding::Q5K => 8,
        _ => 16,
    }
}

/// The factor on the outputs: the encoding's unit, and 16 for the low bytes of activations over [`factor`].
pub(super) const fn unit(encoding: Encoding) -> f32 {
    let unit = match encoding {
        Encoding::Q8 => 1.0 / 32_512.0,
        Encoding::Q4 => 1.0 / 2048.0,
        _ => 1.0,
    };
    unit * (16 / factor(encoding)) as f32
}
