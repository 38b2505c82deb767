//! Writing packed matrices to a file.
//!
//! The file is written by large calls of `write`: the system then keeps it in large pieces, which it maps by huge pages. A
//! file written through a map stays in small ones.

use super::digest;
use super::file::{PackedFile, head};
use super::store::{Cache, Inner};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Bytes of one call of `write`.
const PIECE: usize = 8 << 20;

/// Writes the packed matrices, all of which are there, and remembers their key. Gives the file and whether it was there
/// already.
///
/// # Errors
/// Why there is no file.
pub(super) fn write(store: &Inner, cache: &Cache) -> Result<(PathBuf, bool), String> {
    let layout = &store.layout;
    let key = cache.key.or_else(|| digest::key(layout, store.source.as_ref()));
    let key = key.ok_or("a matrix is gone from its source")?;
    let path = cache.folder.file_of(&key);
    let fault = |e: io::Error| format!("{}: {e}", path.display());
    // Another process may have been quicker, or the source is a copy of one that was packed before.
    let there = PackedFile::open(&path, layout, &key).is_ok();
    if !there {
        let checksums: Vec<u64> =
            (0..layout.slots.len()).map(|i| digest::checksum(store.bytes(i).unwrap_or_default(), None)).collect();
        cache.folder.tidy();
        let temporary = cache.folder.temporary()?;
        cache.folder.make_room(layout.total as u64)?;
        let mut out = Pieces { file: &temporary.file, buffer: Vec::with_capacity(PIECE), written: 0 };
        out.push(&head(layout, &key, &checksums)).map_err(fault)?;
        for (i, slot) in layout.slots.iter().enumerate() {
            let bytes = store.bytes(i).ok_or("a matrix was not packed")?;
            out.pad_to(slot.offset).and_then(|()| out.push(bytes)).map_err(fault)?;
        }
        out.pad_to(layout.total).and_then(|()| out.flush()).map_err(fault)?;
        temporary.persist(&path).map_err(fault)?;
    }
    cache.folder.remember(layout, &cache.identity, &key).map_err(fault)?;
    Ok((path, there))
}

/// Gathers bytes into pieces.
struct Pieces<'a> {
    file: &'a File,
    buffer: Vec<u8>,
    /// Bytes written, the buffer not counted.
    written: usize,
}

impl Pieces<'_> {
    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = rest;
            if self.buffer.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Zeros up to an offset, less than a page away.
    fn pad_to(&mut self, offset: usize) -> io::Result<()> {
        let zeros = [0; super::layout::PAGE];
        let missing = offset.saturating_sub(self.written + self.buffer.len());
        self.push(&zeros[..missing.min(zeros.len())])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len();
        self.buffer.clear();
        Ok(())
    }
}
