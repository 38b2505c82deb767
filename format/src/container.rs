//! The generic container: TOML frontmatter, then files, each opened by a line `~~~NAME`.
//!
//! - Only LF ends a line, and only the name of the *next declared* file opens it: any other line that begins with
//!   `~~~` is content.
//! - A file without `size` is text up to the next delimiter, or up to the end of the container when it is the last.
//! - A file with `size` is exactly that many bytes, never scanned; one LF may stand between it and the next delimiter.

mod split;

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use crate::error::{ErrorKind, FormatError, Result, list};
use crate::frontmatter::Declared;
use crate::map::{Data, FileIdentity};
use crate::toml_text::line_of;

pub(crate) use split::find_delimiter;

/// The default of [`ReadOptions::max_text`].
pub const DEFAULT_MAX_TEXT: u64 = 32 << 20;

/// Limits on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// How many bytes of frontmatter and text files are scanned for delimiters. Binary files do not count.
    pub max_text: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_text: DEFAULT_MAX_TEXT }
    }
}

/// One file inside a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What its content is, as in `toml`.
    pub format: String,
    /// The declared length in bytes; `None` for text.
    pub size: Option<u64>,
    /// The optional `type` key.
    pub kind: Option<String>,
    /// Where its content lies in the container.
    pub range: Range<usize>,
}

impl Entry {
    /// The entry as `[[files]]` declares it.
    pub fn declared(&self) -> Declared {
        Declared { name: self.name.clone(), format: self.format.clone(), size: self.size, kind: self.kind.clone() }
    }
}

/// A container split into its files. Opening maps the file; binary bytes are not touched.
pub struct Container {
    data: Data,
    label: String,
    path: Option<PathBuf>,
    frontmatter: DocumentMut,
    frontmatter_len: usize,
    entries: Vec<Entry>,
    warnings: Vec<String>,
}

impl Container {
    /// Opens a file with default limits.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// Opens a file.
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let label = path.display().to_string();
        Self::new(Data::map(path)?, label, Some(path.to_owned()), options)
    }

    /// Reads bytes compiled into the program; `label` stands for the path in messages.
    pub fn from_static(bytes: &'static [u8], label: &str) -> Result<Self> {
        Self::new(Data::Static(bytes), label.to_owned(), None, &ReadOptions::default())
    }

    /// Reads bytes held in memory; `label` stands for the path in messages.
    pub fn from_vec(bytes: Vec<u8>, label: &str, options: &ReadOptions) -> Result<Self> {
        Self::new(Data::Owned(bytes), label.to_owned(), None, options)
    }

    fn new(data: Data, label: String, path: Option<PathBuf>, options: &ReadOptions) -> Result<Self> {
        let parsed = split::split(data.bytes(), options.max_text).map_err(|e| e.with_label(&label))?;
        Ok(Self {
            data,
            label,
            path,
            frontmatter: parsed.doc,
            frontmatter_len: parsed.frontmatter_len,
            entries: parsed.entries,
            warnings: parsed.warnings,
        })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    /// The path it was opened from; `None` for bytes from memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The identity that the file had when it was opened; `None` for bytes from memory.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.data.identity()
    }

    /// The path, or what stands for it in messages.
    pub fn label(&self) -> String {
        self.label.clone()
    }

    /// Calls it otherwise in messages.
    pub(crate) fn set_label(&mut self, label: &str) {
        label.clone_into(&mut self.label);
    }

    /// The frontmatter with comments and unknown keys.
    pub fn frontmatter(&self) -> &DocumentMut {
        &self.frontmatter
    }

    /// The bytes of the frontmatter, up to the first delimiter.
    pub fn frontmatter_text(&self) -> &str {
        // Checked to be UTF-8 when it was parsed.
        std::str::from_utf8(&self.bytes()[..self.frontmatter_len]).unwrap_or_default()
    }

    /// `name` in `[cyb]`.
    pub fn name(&self) -> Option<&str> {
        self.frontmatter.get("cyb")?.get("name")?.as_str()
    }

    /// `types` in `[cyb]`.
    pub fn types(&self) -> Vec<String> {
        let types = self.frontmatter.get("cyb").and_then(|c| c.get("types")?.as_array());
        types.into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect()
    }

    /// The files, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The file of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The content of a file.
    pub fn content(&self, name: &str) -> Option<&[u8]> {
        Some(&self.bytes()[self.entry(name)?.range.clone()])
    }

    /// The content of a file that is read as text: an error where it is not UTF-8, `None` where there is no such file.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(entry) = self.entry(name) else {
            return Ok(None);
        };
        std::str::from_utf8(&self.bytes()[entry.range.clone()]).map(Some).map_err(|e| {
            let at = entry.range.start + e.valid_up_to();
            FormatError::new(ErrorKind::Malformed, format!("`{name}` is not UTF-8"))
                .cure("Save it as UTF-8")
                .at(format!("byte {at}"))
                .with_label(&self.label)
        })
    }

    /// The line of the container, from 1, on which a text file's content begins.
    pub fn first_line(&self, name: &str) -> Option<usize> {
        Some(line_of(self.bytes(), self.entry(name)?.range.start))
    }

    /// What is odd about the container without making it unreadable.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Lets the system drop the memory pages of a range of bytes; they are read again when touched.
    pub fn release(&self, range: Range<usize>) {
        self.data.release(range);
    }
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("label", &self.label).field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// An error for a file that is not there, with the names that are.
pub(crate) fn no_such_file(container: &Container, name: &str) -> FormatError {
    let names: Vec<&str> = container.entries().iter().map(|e| e.name.as_str()).collect();
    FormatError::new(ErrorKind::Missing, format!("there is no file `{name}` inside"))
        .cure(format!("Choose one of {}", list(&names, 20)))
        .with_label(&container.label)
}
