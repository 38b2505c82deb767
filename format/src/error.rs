//! The one error type of this crate.

use std::fmt;
use std::path::Path;

/// What sort of trouble an error reports. Callers choose exit codes and retries by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: no such file, no permission, disk full.
    Io,
    /// The bytes break a rule of the format.
    Malformed,
    /// Something that must be there is not: a section, a key, a tensor.
    Missing,
    /// Two things contradict each other, such as a tensor's shape and the config.
    Mismatch,
    /// Well-formed, but beyond what this version reads.
    Unsupported,
    /// A `.model` without `format_version = 2`: its encodings may have other meanings.
    Version,
    /// Over a limit that keeps hostile input from using up memory or time.
    TooLarge,
    /// A request that cannot be honoured, such as packing two files under one name.
    Refused,
}

/// An error with its place and its cure. Displayed as `FILE: PLACE: cause. Cure.`
#[derive(Debug)]
pub struct FormatError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    file: Option<String>,
    place: Option<String>,
    cause: String,
    cure: Option<String>,
    source: Option<std::io::Error>,
}

/// Shorthand for results of this crate.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

impl FormatError {
    /// An error of a kind. `cause` is a clause without a full stop: what is wrong, with the values.
    pub fn new(kind: ErrorKind, cause: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, file: None, place: None, cause: cause.into(), cure: None, source: None }))
    }

    /// An error from the operating system; `action` says what was being done, as in `cannot open the file`.
    pub fn io(action: impl fmt::Display, source: std::io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, format!("{action}: {source}"));
        error.0.cure = match source.kind() {
            std::io::ErrorKind::NotFound => Some("Check the path".into()),
            std::io::ErrorKind::PermissionDenied => Some("Check the permissions".into()),
            std::io::ErrorKind::StorageFull => Some("Free some space and try again".into()),
            _ => None,
        };
        error.0.source = Some(source);
        error
    }

    /// Adds what to do about it: a sentence without its full stop.
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.0.cure = Some(cure.into());
        self
    }

    /// Sets where in the file the trouble is: a line, a byte, a key or a tensor.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.0.place = Some(place.into());
        self
    }

    /// Sets the place, unless one has been set further in.
    pub fn or_at(mut self, place: impl Into<String>) -> Self {
        self.0.place.get_or_insert_with(|| place.into());
        self
    }

    /// Names the file, unless one has been named further in.
    pub fn with_file(self, path: &Path) -> Self {
        self.with_label(&path.display().to_string())
    }

    /// As [`FormatError::with_file`], for input that is no file.
    pub fn with_label(mut self, label: &str) -> Self {
        self.0.file.get_or_insert_with(|| label.to_owned());
        self
    }

    /// Replaces the name of the file, as where a temporary file stands for another.
    pub fn in_file(mut self, label: &str) -> Self {
        self.0.file = Some(label.to_owned());
        self
    }

    /// What sort of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// True where the input is sound and this version of Tallow does not read it.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == ErrorKind::Unsupported
    }

    /// The file, when known.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The place inside the file, when known.
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// The cause alone, without file, place and cure.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The cure alone.
    pub fn cure_text(&self) -> Option<&str> {
        self.0.cure.as_deref()
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        for part in [&inner.file, &inner.place].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        write!(f, "{}.", inner.cause)?;
        match &inner.cure {
            Some(cure) => write!(f, " {cure}."),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FormatError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// Joins names for a message: `a, b and c`, at most `limit` of them, then how many more there are.
pub(crate) fn list<S: AsRef<str>>(names: &[S], limit: usize) -> String {
    let shown: Vec<String> = names.iter().take(limit).map(|n| format!("`{}`", n.as_ref())).collect();
    let more = names.len().saturating_sub(limit);
    match (shown.as_slice(), more) {
        ([], _) => "none".into(),
        (all, 1..) => format!("{} and {more} more", all.join(", ")),
        ([one], 0) => one.clone(),
        ([head @ .., last], 0) => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_puts_file_place_cause_and_cure_in_order() {
        let error = FormatError::new(ErrorKind::Missing, "no key `name`")
            .at("line 3")
            .cure("Add it")
            .with_file(Path::new("a.cyb"))
            .with_file(Path::new("b.cyb"));
        assert_eq!(error.to_string(), "a.cyb: line 3: no key `name`. Add it.");
        assert!(!error.is_unsupported());
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["a"], 3), "`a`");
        assert_eq!(list(&["a", "b"], 3), "`a` and `b`");
        assert_eq!(list(&["a", "b", "c", "d"], 2), "`a`, `b` and 2 more");
        assert_eq!(list::<&str>(&[], 2), "none");
    }
}
