//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{ErrorKind, FormatError, Result};

/// A file that is written beside its path under a temporary name. [`AtomicFile::commit`] syncs and renames it; dropping
/// it removes it. A crash or a full disk leaves the old file or none.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    inner: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Opens a temporary file in the folder of `path`. A symbolic link is followed, so that what it points to is replaced.
    pub fn create(path: &Path) -> Result<Self> {
        let target = if path.is_symlink() {
            path.canonicalize().map_err(|e| FormatError::io("cannot follow the symbolic link", e).with_file(path))?
        } else {
            path.to_owned()
        };
        if target.is_dir() {
            return Err(FormatError::new(ErrorKind::Refused, "this is a folder, so no file can be written there")
                .cure("Name a file inside it")
                .with_file(path));
        }
        if target.metadata().is_ok_and(|m| !m.is_file()) {
            return Err(FormatError::new(ErrorKind::Refused, "this is a device or a pipe, which no file may replace")
                .cure("Name a file, or leave the option out where output to stdout is possible")
                .with_file(path));
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            // A new file gets the usual permissions; a replaced one keeps its own.
            use std::os::unix::fs::PermissionsExt as _;
            let kept = target.metadata().map(|m| m.permissions().mode() & 0o777);
            builder.permissions(std::fs::Permissions::from_mode(kept.unwrap_or(0o666)));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(|e| FormatError::io("cannot create a temporary file beside it", e).with_file(path))?;
        Ok(Self { target, inner: BufWriter::with_capacity(1 << 20, file) })
    }

    /// The path that the file will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// The path that it has until then. Call [`Write::flush`] before reading from there.
    pub fn temporary_path(&self) -> &Path {
        self.inner.get_ref().path()
    }

    /// An operating-system error about this file.
    pub fn error(&self, action: &str, source: io::Error) -> FormatError {
        FormatError::io(action, source).with_file(&self.target)
    }

    /// Writes everything to disk and gives the file its name.
    pub fn commit(mut self) -> Result<()> {
        let target = self.target.clone();
        let fail = |e| FormatError::io("cannot write the file", e).with_file(&target);
        self.inner.flush().map_err(fail)?;
        let file = self.inner.into_inner().map_err(|e| fail(e.into_error()))?;
        file.as_file().sync_all().map_err(fail)?;
        file.persist(&target)
            .map_err(|e| FormatError::io("cannot put the written file in place", e.error).with_file(&target))?;
        sync_folder(&target);
        Ok(())
    }
}

/// Makes the renaming itself durable where the system can. The file is whole either way, so an error is no failure.
fn sync_folder(target: &Path) {
    #[cfg(unix)]
    {
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let _ = File::open(folder).and_then(|f| f.sync_all());
    }
    #[cfg(not(unix))]
    let _ = (target, File::options());
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn commit_replaces_and_drop_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        std::fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(file);
        assert_eq!(names(folder.path()), ["a.bin"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.seek(SeekFrom::Start(1)).unwrap();
        file.write_all(b"E").unwrap();
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"nEw");
        assert_eq!(names(folder.path()), ["a.bin"]);
    }

    #[test]
    fn places_that_cannot_be_written_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(&folder.path().join("no/such/a")).unwrap_err().to_string();
        assert!(error.contains("cannot create a temporary file"), "{error}");
        let error = AtomicFile::create(folder.path()).unwrap_err().to_string();
        assert!(error.contains("this is a folder"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn modes_and_links_are_kept() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("real");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = AtomicFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["link", "real"]);
    }
}
