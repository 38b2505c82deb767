//! A matrix of weights as it lies in its file.

use super::{KernelError, check_len};
use std::ops::Range;
use tallow_format::Encoding;

/// A matrix `[rows, k]` of encoded weights, row-major, each row whole blocks. The bytes need no
/// alignment. Lengths have been checked against each other.
#[derive(Clone, Copy, Debug)]
pub struct WeightRows<'a> {
    encoding: Encoding,
    bytes: &'a [u8],
    rows: usize,
    k: usize,
    row_bytes: usize,
    scale: Option<&'a [f32]>,
}

impl<'a> WeightRows<'a> {
    /// A matrix of `rows` rows of `k` values.
    ///
    /// Ternary bytes that hold the invalid code `11` are read as 0 by products: run
    /// [`Encoding::check`] over the bytes once, before.
    ///
    /// # Errors
    /// [`KernelError::RowNotWholeBlocks`] and [`KernelError::Length`].
    pub fn new(encoding: Encoding, bytes: &'a [u8], rows: usize, k: usize) -> Result<Self, KernelError> {
        let block = encoding.block_len();
        if !k.is_multiple_of(block) {
            return Err(KernelError::RowNotWholeBlocks { encoding, k, block });
        }
        let row_bytes = (k / block).checked_mul(encoding.block_bytes());
        check_len("encoded matrix (in bytes)", bytes.len(), row_bytes.and_then(|row| row.checked_mul(rows)))?;
        Ok(Self { encoding, bytes, rows, k, row_bytes: row_bytes.unwrap_or(0), scale: None })
    }

    /// Adds the scale of a ternary matrix: one value, or one per row.
    ///
    /// # Errors
    /// [`KernelError::ScaleNotTernary`], and [`KernelError::Length`] for another number of values.
    pub fn with_scale(mut self, scale: &'a [f32]) -> Result<Self, KernelError> {
        if self.encoding != Encoding::Ternary {
            return Err(KernelError::ScaleNotTernary { encoding: self.encoding });
        }
        if scale.len() != 1 {
            check_len("scale of a ternary matrix", scale.len(), Some(self.rows))?;
        }
        self.scale = Some(scale);
        Ok(self)
    }

    /// How the values are stored.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Rows of the matrix, the `N` of a product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row, the `K` of a product.
    pub fn k(&self) -> usize {
        self.k
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// The bytes of row `row`.
    ///
    /// # Panics
    /// When `row >= rows()`.
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.row_bytes..(row + 1) * self.row_bytes]
    }

    /// The scale on row `row`: 1 but for ternary matrices that carry one.
    pub fn row_scale(&self, row: usize) -> f32 {
        match self.scale {
            None => 1.0,
            Some([scale]) => *scale,
            Some(scales) => scales[row],
        }
    }

    /// The matrix of the rows `range` alone, such as one part of a joined projection.
    ///
    /// # Errors
    /// [`KernelError::RowOutOfRange`].
    pub fn slice(&self, range: Range<usize>) -> Result<Self, KernelError> {
        if range.start > range.end || range.end > self.rows {
            return Err(KernelError::RowOutOfRange { row: range.end as u64, rows: self.rows });
        }
        let mut part = *self;
        part.rows = range.len();
        part.bytes = &self.bytes[range.start * self.row_bytes..range.end * self.row_bytes];
        part.scale = match self.scale {
            Some(scales) if scales.len() != 1 => Some(&scales[range]),
            scale => scale,
        };
        Ok(part)
    }
}
