//! The packed form that the store keeps.

use crate::kernels::{KernelError, WeightRows};
use std::ops::Range;
use tallow_format::Encoding;

pub(super) const VERSION: u32 = 0;

/// A packed matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    pub(crate) fn packs(encoding: Encoding) -> bool {
        encoding.is_block()
    }

    pub(crate) fn panels_of(rows: usize) -> usize {
        rows.div_ceil(16)
    }

    pub(crate) fn bytes(encoding: Encoding, rows: usize, k: usize) -> Result<usize, KernelError> {
        let block = encoding.block_len();
        if !k.is_multiple_of(block) {
            return Err(KernelError::RowNotWholeBlocks { encoding, k, block });
        }
        let panel = (k / block).checked_mul(encoding.block_bytes() * 16);
        let all = panel.and_then(|n| n.checked_next_multiple_of(64)?.checked_mul(Self::panels_of(rows)));
        all.ok_or(KernelError::Length { what: "packed matrix", found: 0, expected: usize::MAX })
    }

    pub(crate) fn new(_: Encoding, _: usize, _: usize, bytes: &'a [u8]) -> Result<Self, KernelError> {
        Ok(Self { bytes })
    }
}

pub(super) fn pack_panels(w: &WeightRows<'_>, panels: Range<usize>, out: &mut [u8]) {
    let each = out.len() / panels.len().max(1);
    for (panel, out) in panels.zip(out.chunks_mut(each.max(1))) {
        let rows = panel * 16..w.rows().min(panel * 16 + 16);
        for (row, out) in rows.zip(out.chunks_mut(w.row_bytes())) {
            out.copy_from_slice(w.row(row));
        }
    }
}
