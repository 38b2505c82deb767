//! The one error type of this crate.

use std::path::{Path, PathBuf};

use tallow_format::FormatError;

/// Why an import stopped. Displayed as `FILE: PLACE: cause. Cure.`; nothing is left on disk in any case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The operating system refused: no such file, no permission.
    #[error("{}: cannot {action}: {source}. {}", path.display(), io_cure(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, as in `open the file`.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk filled up while the `.model` was written. The half-written file has been removed.
    #[error("{}: the disk is full{}. Free some space, or write to another disk, and import again; nothing was left behind.",
        path.display(), needed.map(|n| format!(": the file needs {n} bytes")).unwrap_or_default())]
    DiskFull {
        /// The file that was being written.
        path: PathBuf,
        /// The size it was going to have, when known.
        needed: Option<u64>,
    },
    /// The bytes break a rule of their own format.
    #[error("{}: {place}: {cause}. {cure}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// A byte offset, a key or a tensor.
        place: String,
        /// What is wrong, with the values.
        cause: String,
        /// What to do about it, a sentence.
        cure: String,
    },
    /// The source is sound, and this version does not read it.
    #[error("{}: {place}: {cause}. {cure}", path.display())]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// A key, a tensor or a component.
        place: String,
        /// What is not supported, by name.
        cause: String,
        /// What to do about it, a sentence.
        cure: String,
    },
    /// The request cannot be honoured as asked.
    #[error("{place}: {cause}. {cure}")]
    Refused {
        /// The argument, option or tensor.
        place: String,
        /// Why not.
        cause: String,
        /// What to do instead, a sentence.
        cure: String,
    },
    /// A weight that no encoding can hold: NaN, infinity, or out of range.
    #[error("{0}")]
    Value(Box<BadValue>),
    /// Reading or writing a container failed.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A weight that cannot be stored, and where it is.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: tensor `{tensor}` (`{source_name}` in the source): value {index}, at {position}, is {value}, {cause}. {cure}", path.display())]
pub struct BadValue {
    /// The source file.
    pub path: PathBuf,
    /// The tensor's name in the `.model`.
    pub tensor: String,
    /// The tensor's name in the source.
    pub source_name: String,
    /// Index of the value, counted row-major.
    pub index: u64,
    /// The same as coordinates.
    pub position: String,
    /// The value.
    pub value: f32,
    /// Why it cannot be stored.
    pub cause: String,
    /// What to do about it, a sentence.
    pub cure: String,
}

/// Shorthand for results of this crate.
pub type Result<T, E = ImportError> = std::result::Result<T, E>;

fn io_cure(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "Check the path.",
        std::io::ErrorKind::PermissionDenied => "Check the permissions.",
        _ => "Try again, or copy the file to another disk first.",
    }
}

impl ImportError {
    /// True where the source is sound and this version does not read it.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Unsupported { .. } => true,
            Self::Format(e) => e.is_unsupported(),
            _ => false,
        }
    }

    pub(crate) fn io(path: &Path, action: &str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action: action.to_owned(), source }
    }

    pub(crate) fn malformed(
        path: &Path,
        place: impl Into<String>,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::Malformed { path: path.to_owned(), place: place.into(), cause: cause.into(), cure: cure.into() }
    }

    pub(crate) fn unsupported(
        path: &Path,
        place: impl Into<String>,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::Unsupported { path: path.to_owned(), place: place.into(), cause: cause.into(), cure: cure.into() }
    }

    pub(crate) fn refused(place: impl Into<String>, cause: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Refused { place: place.into(), cause: cause.into(), cure: cure.into() }
    }

    /// A container error while writing `path`, told apart when the disk is full.
    pub(crate) fn writing(path: &Path, needed: Option<u64>, error: FormatError) -> Self {
        let full = std::error::Error::source(&error)
            .and_then(|e| e.downcast_ref::<std::io::Error>())
            .is_some_and(|e| matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded));
        if full { Self::DiskFull { path: path.to_owned(), needed } } else { Self::Format(error) }
    }
}

/// Names for a message: at most `limit` of them in back quotes, then how many more there are.
pub(crate) fn names<S: AsRef<str>>(all: &[S], limit: usize) -> String {
    let shown: Vec<String> = all.iter().take(limit).map(|n| format!("`{}`", clip(n.as_ref()))).collect();
    match all.len().saturating_sub(limit) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Text from a file for a message: cut after 80 characters, control characters escaped.
pub(crate) fn clip(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == 80 {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_called_so() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error =
            ImportError::writing(Path::new("m.model"), Some(123), FormatError::io("cannot write the file", full));
        let text = error.to_string();
        assert!(text.starts_with("m.model: the disk is full: the file needs 123 bytes."), "{text}");
        let other = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let error = ImportError::writing(Path::new("m"), None, FormatError::io("cannot write", other));
        assert!(matches!(error, ImportError::Format(_)));
    }

    #[test]
    fn names_from_files_are_clipped() {
        assert_eq!(names(&["a", "b", "c"], 2), "`a`, `b` and 1 more");
        assert_eq!(clip("a\nb"), "a\\nb");
        assert_eq!(clip(&"x".repeat(200)).chars().count(), 81);
    }
}
