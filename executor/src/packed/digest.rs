//! Checksums of packed bytes, quick enough to be checked in each process, and the digest of a source.

use super::layout::Layout;
use crate::kernels::Team;
use crate::weights::WeightSource;
use sha2::{Digest as _, Sha256};
use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// Bytes that one thread sums at a time.
const CHUNK: usize = 1 << 20;
/// Bytes of a source that have a digest of their own, so that threads could share the work.
const SOURCE_CHUNK: usize = 4 << 20;

/// The name of what the packed matrices are made of.
pub(super) type Key = [u8; 32];

/// The checksum of a matrix: that of the checksums of its pieces.
pub(super) fn checksum(bytes: &[u8], team: Option<&Team>) -> u64 {
    let pieces = bytes.len().div_ceil(CHUNK);
    let piece = |i: usize| XxHash3_64::oneshot(&bytes[i * CHUNK..bytes.len().min((i + 1) * CHUNK)]);
    let sums: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(pieces).collect();
    let work = |range: std::ops::Range<usize>| range.for_each(|i| sums[i].store(piece(i), Ordering::Relaxed));
    match team {
        Some(team) => team.run_chunks(pieces, 1, work),
        None => work(0..pieces),
    }
    let sums: Vec<u8> = sums.iter().flat_map(|s| s.load(Ordering::Relaxed).to_le_bytes()).collect();
    XxHash3_64::oneshot(&sums)
}

/// The checksum of a head.
pub(super) fn head(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The key of a layout over these sources: SHA-256 of the layout's digest and, for each matrix in turn, its length and the
/// digests of its pieces. `None` where the source lacks a matrix.
pub(super) fn key(layout: &Layout, source: &dyn WeightSource) -> Option<Key> {
    let mut sha = Sha256::new();
    sha.update(layout.digest);
    for slot in &layout.slots {
        let name = &slot.matrix.name;
        let view = source.weight(name)?;
        sha.update((view.bytes.len() as u64).to_le_bytes());
        for chunk in view.bytes.chunks(SOURCE_CHUNK) {
            sha.update(Sha256::digest(chunk));
        }
        source.release(name);
    }
    Some(sha.finalize().into())
}

/// In lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The key that [`hex`] wrote.
pub(super) fn from_hex(text: &str) -> Option<Key> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(key)
}
