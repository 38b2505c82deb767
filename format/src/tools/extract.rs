//! Takes files out of a container.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::atomic::AtomicFile;
use crate::container::{Container, Entry, no_such_file};
use crate::error::{ErrorKind, FormatError, Result};

/// The name under which [`extract`] puts the frontmatter, where [`super::pack`] finds it.
pub(super) const FRONTMATTER: &str = "frontmatter.toml";

/// A file that [`extract`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// Its name in the container; `None` for the frontmatter.
    pub name: Option<String>,
    /// Where it was written.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The bytes of one file; an error lists the names that there are.
pub fn cat<'a>(container: &'a Container, name: &str) -> Result<&'a [u8]> {
    container.content(name).ok_or_else(|| no_such_file(container, name))
}

/// Writes files into `folder`, which is made where needed: those of `names`, or all of them and the frontmatter when
/// `names` is empty. `card` with format `md` becomes `card.md`. Existing files are left alone unless `overwrite` is set;
/// nothing is written before every name has been checked.
pub fn extract(container: &Container, names: &[String], folder: &Path, overwrite: bool) -> Result<Vec<Extracted>> {
    let label = container.label();
    let mut chosen: Vec<(Option<&Entry>, PathBuf)> = Vec::new();
    let entries: Vec<&Entry> = if names.is_empty() {
        container.entries().iter().collect()
    } else {
        let find = |name: &String| container.entry(name).ok_or_else(|| no_such_file(container, name));
        names.iter().map(find).collect::<Result<_>>()?
    };
    for entry in entries {
        let path = folder.join(file_name(entry).map_err(|e| e.with_label(&label))?);
        if !chosen.iter().any(|(_, other)| *other == path) {
            chosen.push((Some(entry), path));
        } else if names.is_empty() {
            return Err(FormatError::new(
                ErrorKind::Refused,
                format!("two files would be written to `{}`", path.display()),
            )
            .cure("Extract them one at a time, by name, into different folders")
            .with_label(&label));
        }
    }
    let frontmatter = folder.join(FRONTMATTER);
    if names.is_empty() && !chosen.iter().any(|(_, path)| *path == frontmatter) {
        chosen.push((None, frontmatter));
    }
    if let Some((_, path)) = chosen.iter().find(|(_, path)| !overwrite && path.symlink_metadata().is_ok()) {
        return Err(FormatError::new(ErrorKind::Refused, "the file is already there")
            .cure("Choose another folder, or ask to overwrite")
            .with_file(path));
    }
    chosen
        .into_iter()
        .map(|(entry, path)| {
            let bytes = match entry {
                Some(entry) => &container.bytes()[entry.range.clone()],
                None => container.frontmatter_text().as_bytes(),
            };
            write(&path, bytes)?;
            Ok(Extracted { name: entry.map(|e| e.name.clone()), bytes: bytes.len() as u64, path })
        })
        .collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|e| FormatError::io("cannot make the folder", e).with_file(parent))?;
    }
    let mut file = AtomicFile::create(path)?;
    let written = file.write_all(bytes);
    written.map_err(|e| file.error("cannot write the file", e))?;
    file.commit()
}

/// The relative path of a file: its name, with its format as an extension where it has none. A name that would leave the
/// folder is refused.
pub(super) fn file_name(entry: &Entry) -> Result<PathBuf> {
    let name = &entry.name;
    let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    if !plain || name.contains(['\\', '\0', ':']) || name.ends_with('/') {
        return Err(FormatError::new(
            ErrorKind::Refused,
            format!("the name `{}` is no safe file name", name.escape_debug()),
        )
        .cure("Read it with `tallow cat` instead"));
    }
    let format = &entry.format;
    let usable = !format.is_empty() && format.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let suffix = format!(".{format}");
    Ok(if usable && !name.ends_with(&suffix) { PathBuf::from(format!("{name}{suffix}")) } else { PathBuf::from(name) })
}
