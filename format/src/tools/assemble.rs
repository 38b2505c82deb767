//! Puts a container together from a frontmatter and contents.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use toml_edit::DocumentMut;

use crate::atomic::AtomicFile;
use crate::container::Container;
use crate::error::{ErrorKind, FormatError, Result};
use crate::frontmatter;
use crate::writer::needs_size;

/// Where the bytes of a file come from.
pub(super) enum Content<'a> {
    /// Memory, or the map of another container.
    Bytes(&'a [u8]),
    /// Text that was made or read for the purpose.
    Owned(Vec<u8>),
    /// A file of a known length, copied when its turn comes.
    Path(PathBuf, u64),
}

/// One file to store.
pub(super) struct Part<'a> {
    pub(super) name: String,
    pub(super) content: Content<'a>,
    /// Store it with a size even where it could do without.
    pub(super) sized: bool,
}

impl Content<'_> {
    pub(super) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Owned(bytes) => bytes.len() as u64,
            Content::Path(_, len) => *len,
        }
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Content::Bytes(bytes) => Some(bytes),
            Content::Owned(bytes) => Some(bytes),
            Content::Path(..) => None,
        }
    }
}

/// The files of a container as parts, in order.
pub(super) fn parts_of(container: &Container) -> Vec<Part<'_>> {
    let part = |e: &crate::Entry| Part {
        name: e.name.clone(),
        content: Content::Bytes(&container.bytes()[e.range.clone()]),
        sized: e.size.is_some(),
    };
    container.entries().iter().map(part).collect()
}

/// Writes a container. `doc` declares `parts` in their order; sizes are filled in here. With `align`, the content of the
/// file of that name begins on a page.
pub(super) fn write(
    file: &mut AtomicFile,
    mut doc: DocumentMut,
    parts: &[Part<'_>],
    align: Option<&str>,
) -> Result<()> {
    let mut sizes = Vec::with_capacity(parts.len());
    let mut position = 0u64;
    let mut aligned = None;
    for (index, part) in parts.iter().enumerate() {
        let next = parts.get(index + 1).map(|p| p.name.as_str());
        let sized = part.sized
            || match part.content.bytes() {
                Some(bytes) => needs_size(bytes, next),
                None => next.is_some(),
            };
        frontmatter::set_size(&mut doc, index, sized.then(|| part.content.len()))?;
        sizes.push(sized);
        position += ("~~~".len() + part.name.len() + 1) as u64;
        if align == Some(part.name.as_str()) {
            aligned = Some(position);
        }
        position += part.content.len() + u64::from(sized && next.is_some());
    }
    let head = match aligned {
        Some(position) => frontmatter::render_aligned(&doc, position),
        None => frontmatter::render(&doc),
    };
    let fail = |e| FormatError::io("cannot write the file", e);
    file.write_all(head.as_bytes()).map_err(fail)?;
    for (index, part) in parts.iter().enumerate() {
        writeln!(file, "~~~{}", part.name).map_err(fail)?;
        match &part.content {
            Content::Bytes(bytes) => file.write_all(bytes).map_err(fail)?,
            Content::Owned(bytes) => file.write_all(bytes).map_err(fail)?,
            Content::Path(path, len) => copy(path, *len, file)?,
        }
        if sizes[index] && index + 1 < parts.len() {
            file.write_all(b"\n").map_err(fail)?;
        }
    }
    file.flush().map_err(fail)
}

fn copy(path: &PathBuf, len: u64, file: &mut AtomicFile) -> Result<()> {
    let source = File::open(path).map_err(|e| FormatError::io("cannot open the file", e).with_file(path))?;
    let copied = std::io::copy(&mut source.take(len), file)
        .map_err(|e| FormatError::io(format!("cannot copy `{}`", path.display()), e))?;
    if copied == len {
        return Ok(());
    }
    Err(FormatError::new(ErrorKind::Io, format!("the file shrank from {len} to {copied} bytes while it was read"))
        .cure("Try again when nothing writes to it")
        .with_file(path))
}
