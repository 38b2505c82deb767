//! Changes text files of a container. No byte of a binary file changes, and neither do other keys, comments and the order
//! of the frontmatter.

use std::path::{Path, PathBuf};

use super::assemble::{self, Content, Part};
use super::pack::is_model;
use crate::atomic::AtomicFile;
use crate::container::{Container, ReadOptions, no_such_file};
use crate::error::{ErrorKind, FormatError, Result};
use crate::frontmatter::{self, Declared};
use crate::model::{ModelFile, ORDER};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Gives a text file another content.
    Replace {
        /// Its name.
        name: String,
        /// UTF-8.
        content: String,
    },
    /// Adds a text file. A model's section goes to its usual place, any other file before the first binary one.
    Add {
        /// Its name.
        name: String,
        /// Its format, as in `toml`.
        format: String,
        /// UTF-8.
        content: String,
    },
    /// Takes a text file out.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Where the edited container goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Over the original, by atomic replacement.
    InPlace,
    /// To another file.
    File(PathBuf),
}

/// Applies changes in order, and gives the warnings of the result.
///
/// The weights of a model begin on a page again. An edit that would turn a container that can be read, or a model that
/// can be opened, into one that cannot is refused.
pub fn edit(path: &Path, edits: &[Edit], to: &Destination, options: &ReadOptions) -> Result<Vec<String>> {
    let container = Container::open_with(path, options)?;
    let place = |e: FormatError| e.with_file(path);
    let mut doc = container.frontmatter().clone();
    frontmatter::strip_pad(&mut doc);
    let mut parts = assemble::parts_of(&container);
    let is_model = is_model(&doc);
    for one in edits {
        apply(one, &container, &mut doc, &mut parts, is_model).map_err(place)?;
    }
    let was_sound = is_model && ModelFile::open_with(path, options).is_ok();

    let target = match to {
        Destination::InPlace => path,
        Destination::File(other) => other,
    };
    let mut file = AtomicFile::create(target)?;
    assemble::write(&mut file, doc, &parts, is_model.then_some("weights")).map_err(|e| e.with_file(target))?;
    let warnings = check(file.temporary_path(), is_model, was_sound, options)
        .map_err(|e| e.in_file(&format!("{} as edited", path.display())))?;
    drop(parts);
    drop(container);
    file.commit()?;
    Ok(warnings)
}

/// Opens the result. A model that could not be opened before may still be broken: a first of several edits.
fn check(path: &Path, is_model: bool, was_sound: bool, options: &ReadOptions) -> Result<Vec<String>> {
    let container = Container::open_with(path, options)?;
    if !is_model {
        return Ok(container.warnings().to_vec());
    }
    let model = ModelFile::from_container(container).and_then(|model| {
        model.vocab()?;
        Ok(model)
    });
    match model {
        Ok(model) => Ok(model.warnings().to_vec()),
        Err(error) if was_sound => Err(error),
        Err(error) => Ok(vec![format!("the model could not be opened before, and still cannot: {}", error.cause())]),
    }
}

fn apply<'a>(
    edit: &Edit,
    container: &Container,
    doc: &mut toml_edit::DocumentMut,
    parts: &mut Vec<Part<'a>>,
    is_model: bool,
) -> Result<()> {
    let find = |parts: &[Part<'a>], name: &str| {
        let at = parts.iter().position(|p| p.name == name);
        at.ok_or_else(|| no_such_file(container, name))
    };
    match edit {
        Edit::Replace { name, content } => {
            let at = find(parts, name)?;
            demand_text(&parts[at], is_model)?;
            parts[at].content = Content::Owned(content.clone().into_bytes());
        }
        Edit::Remove { name } => {
            let at = find(parts, name)?;
            demand_text(&parts[at], is_model)?;
            if parts.len() == 1 {
                return Err(FormatError::new(
                    ErrorKind::Refused,
                    format!("`{name}` is the only file, and a container holds at least one"),
                )
                .cure("Replace its content instead"));
            }
            parts.remove(at);
            frontmatter::remove(doc, at);
        }
        Edit::Add { name, format, content } => {
            frontmatter::check_name(name)?;
            if parts.iter().any(|p| p.name == *name) {
                return Err(FormatError::new(ErrorKind::Refused, format!("there is already a file `{name}`"))
                    .cure("Replace its content instead, or choose another name"));
            }
            let at = place_of(name, parts, is_model);
            let declared = Declared { name: name.clone(), format: format.clone(), ..Declared::default() };
            frontmatter::insert(doc, at, &declared)?;
            let part = Part { name: name.clone(), content: Content::Owned(content.clone().into_bytes()), sized: false };
            parts.insert(at, part);
        }
    }
    Ok(())
}

/// Where a new file goes: see [`Edit::Add`].
fn place_of(name: &str, parts: &[Part<'_>], is_model: bool) -> usize {
    let rank = |name: &str| ORDER.iter().position(|n| *n == name);
    if let (true, Some(own)) = (is_model, rank(name)) {
        let after = |p: &Part<'_>| rank(&p.name).is_some_and(|other| other > own);
        if let Some(at) = parts.iter().position(after) {
            return at;
        }
    }
    let binary = |p: &Part<'_>| p.sized || !is_text(p);
    parts.iter().position(binary).unwrap_or(parts.len())
}

fn is_text(part: &Part<'_>) -> bool {
    part.content.bytes().is_some_and(|b| std::str::from_utf8(b).is_ok())
}

fn demand_text(part: &Part<'_>, is_model: bool) -> Result<()> {
    if (is_model && part.name == "weights") || (part.sized && !is_text(part)) {
        return Err(FormatError::new(
            ErrorKind::Refused,
            format!("`{}` is binary, and only text files can be edited", part.name),
        )
        .cure("Extract the files, change them and pack them again"));
    }
    Ok(())
}
