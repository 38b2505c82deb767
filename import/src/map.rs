//! Source files as memory maps: the only module with `unsafe`.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{ImportError, Result};

/// A regular file, mapped read-only. No byte is read before it is touched.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    map: Option<memmap2::Mmap>,
}

impl MappedFile {
    /// Maps `path`. An empty file gives no bytes; a folder, a device or a missing file is an error.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| ImportError::io(path, "open the file", e))?;
        let meta = file.metadata().map_err(|e| ImportError::io(path, "read its size", e))?;
        if !meta.is_file() {
            return Err(ImportError::refused(
                path.display().to_string(),
                "this is not a regular file",
                "Name a file, or a folder with a `config.json`.",
            ));
        }
        if usize::try_from(meta.len()).is_err() {
            return Err(ImportError::refused(
                path.display().to_string(),
                format!("{} bytes are more than this machine can address", meta.len()),
                "Import it on a 64-bit machine.",
            ));
        }
        let map = if meta.len() == 0 {
            None
        } else {
            // SAFETY: the map is read-only and no reference outlives it. A process that cuts the file short while it
            // is mapped ends this one with a signal; no reader of mapped files can rule that out.
            #[allow(unsafe_code)]
            let map = unsafe { memmap2::Mmap::map(&file) };
            Some(map.map_err(|e| ImportError::io(path, "map the file into memory", e))?)
        };
        Ok(Self { path: path.to_owned(), map })
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the system drop the whole pages inside `range`: they are read again when touched. Keeps the resident
    /// memory of a long import near its largest tensor. A hint; errors are ignored.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            const PAGE: usize = 4096;
            let start = range.start.div_ceil(PAGE) * PAGE;
            let end = range.end.min(map.len()) / PAGE * PAGE;
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
