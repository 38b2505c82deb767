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
    Mapped(memmap2::Mmap, FileIdentity),
}

/// What tells a file from another, and from itself after a change, without reading it. A file that was replaced, or
/// written to by the system's means, has another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The number of the file in its file system; a hash of its path where the system tells none.
    pub inode: u64,
    /// Length in bytes.
    pub len: u64,
    /// When its content changed last, in nanoseconds since 1970.
    pub modified: i128,
    /// When its content or its attributes changed last, in nanoseconds since 1970: no program can set it back.
    pub changed: i128,
}

impl FileIdentity {
    #[cfg(unix)]
    fn of(_: &Path, meta: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let nanoseconds = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            modified: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            changed: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn of(path: &Path, meta: &std::fs::Metadata) -> Self {
        let since = |time: std::io::Result<std::time::SystemTime>| {
            let time = time.ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            time.map_or(0, |t| i128::try_from(t.as_nanos()).unwrap_or(0))
        };
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let inode = path.to_string_lossy().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
        Self { device: 0, inode, len: meta.len(), modified: since(meta.modified()), changed: since(meta.created()) }
    }
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
        map.map(|map| Data::Mapped(map, FileIdentity::of(path, &meta)))
            .map_err(|e| FormatError::io("cannot map the file into memory", e).with_file(path))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Data::Static(bytes) => bytes,
            Data::Owned(bytes) => bytes,
            Data::Mapped(map, _) => map,
        }
    }

    /// The identity that the file had when it was mapped; none for bytes that are no file.
    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        match self {
            Data::Mapped(_, identity) => Some(*identity),
            Data::Static(_) | Data::Owned(_) => None,
        }
    }

    /// Lets the system drop the whole pages inside `range`; they are read again when touched. A hint: errors are ignored.
    pub(crate) fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Data::Mapped(map, _) = self {
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
