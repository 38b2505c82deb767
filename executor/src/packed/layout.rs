//! The place of each matrix in the region.

use super::kernel::{self, Packed};
use super::store::Matrix;
use crate::error::{ExecutorError, Result};
use sha2::{Digest as _, Sha256};

/// Where matrices, and all else in the region, begin: a multiple of a page.
pub(super) const PAGE: usize = 4096;
/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"TALLOWPK";
/// The version of the head.
const FILE_VERSION: u32 = 1;

/// A matrix with its place.
#[derive(Debug)]
pub(super) struct Slot {
    pub matrix: Matrix,
    /// First byte in the region; a multiple of [`PAGE`].
    pub offset: usize,
    /// Packed bytes.
    pub len: usize,
}

impl Slot {
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len
    }
}

/// The places of all matrices. It follows from their names, encodings, sizes and order alone.
#[derive(Debug)]
pub(super) struct Layout {
    pub slots: Vec<Slot>,
    /// Bytes of the region, head included.
    pub total: usize,
    /// The head of a file up to its key.
    pub prefix: Vec<u8>,
    /// SHA-256 of `prefix`.
    pub digest: [u8; 32],
}

impl Layout {
    pub(super) fn new(matrices: Vec<Matrix>) -> Result<Self> {
        // The head: magic, versions, two sizes, key and checksum, and an entry for each matrix.
        let mut head = 8 + 8 + 16 + 32 + 8;
        let mut sized = Vec::with_capacity(matrices.len());
        for m in matrices {
            let fault = |cause: String| ExecutorError::Weight { name: m.name.clone(), cause };
            let len = Packed::bytes(m.encoding, m.rows, m.k).map_err(|e| fault(e.to_string()))?;
            head += m.name.len() + m.encoding.name().len() + 16 + 32 + 8;
            sized.push((m, len));
        }
        let mut end = head.next_multiple_of(PAGE);
        let mut slots = Vec::with_capacity(sized.len());
        for (matrix, len) in sized {
            let next = end.checked_add(len).and_then(|n| n.checked_next_multiple_of(PAGE));
            let Some(next) = next else {
                let cause = "the packed matrices take more memory than this machine can address".into();
                return Err(ExecutorError::Weight { name: matrix.name, cause });
            };
            slots.push(Slot { matrix, offset: end, len });
            end = next;
        }
        let prefix = prefix(&slots, end);
        let digest = Sha256::digest(&prefix).into();
        Ok(Self { slots, total: end, prefix, digest })
    }

    /// Bytes of the head that are used.
    pub(super) fn head_len(&self) -> usize {
        self.prefix.len() + 32 + 8 * self.slots.len() + 8
    }

    /// Packed bytes of all matrices.
    pub(super) fn packed(&self) -> u64 {
        self.slots.iter().map(|s| s.len as u64).sum()
    }
}

fn prefix(slots: &[Slot], total: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(FILE_VERSION.to_le_bytes());
    out.extend(kernel::VERSION.to_le_bytes());
    let mut number = |n: usize| out.extend((n as u64).to_le_bytes());
    number(total);
    number(slots.len());
    for slot in slots {
        let m = &slot.matrix;
        for text in [&m.name, m.encoding.name()] {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        for n in [m.rows, m.k, slot.offset, slot.len] {
            out.extend((n as u64).to_le_bytes());
        }
    }
    out
}
