//! The bytes of a container: a memory map, a static slice or a buffer.

use std::fs::File;
use std::path::Path;

use crate::error::{ErrorKind, FormatError, Result};

/// Bytes that do not move while they are borrowed.
pub(crate) enum Data {
    /// Bytes compiled into the program.
    Static(&'static [u8]),
    /// Bytes built in memory.
    Owned(Vec<u8>),
    /// A file, read as it is touched.
    Mapped(memmap2::Mmap),
}

impl Data {
    /// Maps a regular file.
    pub(crate) fn map(path: &Path) -> Result<Self> {
        let fail = |e| FormatError::io("cannot open the file", e).with_file(path);
        let file = File::open(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        if meta.is_dir() {
            return Err(FormatError::new(ErrorKind::Refused, "this is a folder, not a file")
                .cure("Name a file inside it")
                .with_file(path));
        }
        if usize::try_from(meta.len()).is_err() {
            return Err(FormatError::new(
                ErrorKind::TooLarge,
                format!("{} bytes are more than this machine can address", meta.len()),
            )
            .with_file(path));
        }
        // SAFETY: the map is read-only and lives as long as its borrows. Another process that truncates the file
        // under a running map ends this one with a signal; no reader of mapped files can rule that out, and
        // Tallow itself replaces files by renaming, which leaves existing maps whole.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) };
        map.map(Data::Mapped).map_err(|e| FormatError::io("cannot map the file into memory", e).with_file(path))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Data::Static(bytes) => bytes,
            Data::Owned(bytes) => bytes,
            Data::Mapped(map) => map,
        }
    }

    /// Lets the system drop the whole pages inside `range`; they are read again when touched. A hint: errors are ignored.
    pub(crate) fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Data::Mapped(map) = self {
            let page = crate::PAGE as usize;
            let start = range.start.div_ceil(page) * page;
            let end = range.end.min(map.len()) / page * page;
            if start < end {
                // SAFETY: the map is read-only and backed by a file, so dropped pages come back with the same bytes.
                #[allow(unsafe_code)]
                let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
