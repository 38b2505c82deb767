//! What can be wrong with the operands of a kernel.

use tallow_format::{Encoding, EncodingError};

/// An error of a kernel. Kernels check lengths, never values: a NaN that goes in comes out.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A slice has another length than the shapes of the call give.
    #[error(
        "the {what} holds {found} elements where the shapes of the call need {expected}; pass slices of matching shapes"
    )]
    Length {
        /// Which operand.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that the shapes give (`usize::MAX` when that overflows).
        expected: usize,
    },
    /// A matrix row is no whole number of blocks.
    #[error(
        "a row of {k} values is no whole number of {encoding} blocks of {block}; store the matrix in another encoding"
    )]
    RowNotWholeBlocks {
        /// The encoding.
        encoding: Encoding,
        /// Values per row.
        k: usize,
        /// Values per block.
        block: usize,
    },
    /// A scale was given to an encoding that has its own.
    #[error("a separate scale belongs to ternary matrices only, not to {encoding}")]
    ScaleNotTernary {
        /// The encoding.
        encoding: Encoding,
    },
    /// A row past the end of a matrix was asked for.
    #[error("row {row} is past the end of a table of {rows} rows")]
    RowOutOfRange {
        /// The row.
        row: u64,
        /// Rows of the matrix.
        rows: usize,
    },
    /// An attribute has a value for which the kernel has no meaning.
    #[error("{what} is {value}, but must be {expected}")]
    Attribute {
        /// Which attribute.
        what: &'static str,
        /// Its value.
        value: String,
        /// The rule it breaks.
        expected: &'static str,
    },
    /// The stored bytes of a row are invalid.
    #[error("cannot decode row {row}: {source}")]
    Decode {
        /// The row.
        row: usize,
        /// What is wrong.
        source: EncodingError,
    },
    /// The system did not start a thread.
    #[error("cannot start a team of {threads} threads: {source}; ask for fewer with --threads")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// The system's answer.
        source: std::io::Error,
    },
}
