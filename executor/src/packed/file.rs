//! A file with packed matrices: its head, and whether it may be used.

use super::digest::{self, Key};
use super::layout::{Layout, Slot};
use super::memory;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file whose head fits, mapped.
pub(super) struct PackedFile {
    pub path: PathBuf,
    map: memmap2::Mmap,
    /// Of each matrix.
    checksums: Vec<u64>,
}

/// Why a file is not used.
#[derive(Debug)]
pub(super) enum Unusable {
    /// There is none.
    Absent,
    /// It cannot be read.
    Io(std::io::Error),
    /// It is damaged, or not what its name says.
    Damaged(&'static str),
}

impl PackedFile {
    /// Opens and maps a file, if it is one of this layout and key, and whole.
    pub(super) fn open(path: &Path, layout: &Layout, key: &Key) -> Result<Self, Unusable> {
        let fault = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => Unusable::Absent,
            _ => Unusable::Io(e),
        };
        // Opening a pipe would wait for someone to write into it.
        if !std::fs::metadata(path).map_err(fault)?.is_file() {
            return Err(Unusable::Damaged("it is no file"));
        }
        let file = File::open(path).map_err(fault)?;
        let meta = file.metadata().map_err(Unusable::Io)?;
        // Reading past the end of a map is a signal, so the length comes first.
        if meta.len() != layout.total as u64 {
            return Err(Unusable::Damaged("its length is another"));
        }
        let map = memory::map_file(&file).map_err(Unusable::Io)?;
        let checksums = checksums(&map, layout, key).ok_or(Unusable::Damaged("its head is another"))?;
        // When files have to go, those go first that were not used for longest. Not all file systems keep times.
        let _ = file.set_modified(std::time::SystemTime::now());
        Ok(Self { path: path.to_owned(), map, checksums })
    }

    /// The packed bytes of a matrix, not checked.
    pub(super) fn bytes(&self, slot: &Slot) -> &[u8] {
        &self.map[slot.range()]
    }

    /// The checksum that a matrix should have.
    pub(super) fn checksum(&self, index: usize) -> u64 {
        self.checksums[index]
    }
}

/// The head of a file: [`Layout::prefix`], the key, the checksums of all matrices, and the checksum of that.
pub(super) fn head(layout: &Layout, key: &Key, checksums: &[u64]) -> Vec<u8> {
    let mut head = layout.prefix.clone();
    head.extend(key);
    head.extend(checksums.iter().flat_map(|s| s.to_le_bytes()));
    let sum = digest::head(&head);
    head.extend(sum.to_le_bytes());
    head
}

/// The checksums of a head that fits.
fn checksums(bytes: &[u8], layout: &Layout, key: &Key) -> Option<Vec<u64>> {
    let found = bytes.get(..layout.head_len())?;
    let rest = found.strip_prefix(layout.prefix.as_slice())?.strip_prefix(key)?;
    let (sums, _) = rest.as_chunks::<8>();
    let sums: Vec<u64> = sums.iter().map(|s| u64::from_le_bytes(*s)).collect();
    let (_, sums) = sums.split_last()?;
    (head(layout, key, sums) == found).then(|| sums.to_vec())
}
