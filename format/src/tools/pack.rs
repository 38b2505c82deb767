//! Makes a container from files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use super::assemble::{self, Content, Part};
use super::extract::{FRONTMATTER, file_name};
use crate::FORMAT_VERSION;
use crate::atomic::AtomicFile;
use crate::container::{Container, DEFAULT_MAX_TEXT, ReadOptions};
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::frontmatter::{self, Declared};
use crate::model::{ModelFile, ORDER};

/// What goes into the frontmatter of a container that is packed without a `frontmatter.toml`.
#[derive(Clone, Debug, Default)]
pub struct PackOptions {
    /// `name` in `[cyb]`; the output's file name where there is none.
    pub name: Option<String>,
    /// `types` in `[cyb]`. With `model` the file gets `format_version = 2`, the usual order, and the checks of a model.
    pub types: Vec<String>,
}

/// What [`pack`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The files, in order.
    pub files: Vec<PackedFile>,
    /// What is odd about the result.
    pub warnings: Vec<String>,
}

/// One file of [`Packed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Its name in the container.
    pub name: String,
    /// Its format.
    pub format: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it is stored with a size.
    pub sized: bool,
}

/// Packs files, or the files of one folder, into `output`.
///
/// `card.md` becomes the file `card` of format `md`. A `frontmatter.toml` among the inputs, as [`super::extract`] writes
/// it, gives names, order and all other keys. Without one, text comes before binary files, each by name; a model has
/// its usual order. A container that could not be read again, and a model that could not be opened, is not written.
pub fn pack(inputs: &[PathBuf], output: &Path, options: &PackOptions) -> Result<Packed> {
    let mut paths = gather(inputs, output)?;
    let template = paths.iter().position(|p| p.file_name().is_some_and(|n| n == FRONTMATTER));
    let (doc, files) = match template.map(|at| paths.remove(at)) {
        Some(template) => from_template(&template, &paths)?,
        None => from_names(&paths, output, options)?,
    };
    if files.is_empty() {
        return Err(FormatError::new(ErrorKind::Refused, "there are no files to pack")
            .cure("Name some files, or a folder that holds some"));
    }
    let is_model = is_model(&doc);
    let mut parts = Vec::with_capacity(files.len());
    let mut text_left = DEFAULT_MAX_TEXT - DEFAULT_MAX_TEXT / 8;
    for file in &files {
        parts.push(part(file, &mut text_left)?);
    }
    let mut file = AtomicFile::create(output)?;
    assemble::write(&mut file, doc, &parts, is_model.then_some("weights")).map_err(|e| e.with_file(output))?;
    let (container, warnings) =
        check(file.temporary_path(), is_model).map_err(|e| e.in_file(&output.display().to_string()))?;
    let packed = container
        .entries()
        .iter()
        .map(|e| PackedFile {
            name: e.name.clone(),
            format: e.format.clone(),
            bytes: e.range.len() as u64,
            sized: e.size.is_some(),
        })
        .collect();
    file.commit()?;
    Ok(Packed { files: packed, warnings })
}

/// Opens what was written, as its readers will.
fn check(path: &Path, is_model: bool) -> Result<(Container, Vec<String>)> {
    let container = Container::open_with(path, &ReadOptions::default())?;
    let warnings = if is_model {
        let model = ModelFile::open(path)?;
        model.vocab()?;
        model.warnings().to_vec()
    } else {
        container.warnings().to_vec()
    };
    Ok((container, warnings))
}

pub(super) fn is_model(doc: &DocumentMut) -> bool {
    let types = doc.get("cyb").and_then(|c| c.get("types")?.as_array());
    types.is_some_and(|t| t.iter().any(|v| v.as_str() == Some("model")))
}

/// The files named, or those of the one folder named, without hidden ones and without the output itself.
fn gather(inputs: &[PathBuf], output: &Path) -> Result<Vec<PathBuf>> {
    let [folder] = inputs else {
        if let Some(folder) = inputs.iter().find(|p| p.is_dir()) {
            return Err(FormatError::new(ErrorKind::Refused, "this is a folder among other inputs")
                .cure("Name either one folder or files")
                .with_file(folder));
        }
        return Ok(inputs.to_vec());
    };
    if !folder.is_dir() {
        return Ok(inputs.to_vec());
    }
    let fail = |e| FormatError::io("cannot list the folder", e).with_file(folder);
    let own = output.canonicalize().ok();
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if hidden || (own.is_some() && path.canonicalize().ok() == own) {
            continue;
        }
        if path.is_dir() {
            return Err(FormatError::new(ErrorKind::Refused, "a folder inside the folder: a container has none")
                .cure("Move its files up, or name the files to pack")
                .with_file(&path));
        }
        paths.push(path);
    }
    paths.sort();
    Ok(paths)
}

/// A file to pack, as the frontmatter declares it.
struct Planned {
    declared: Declared,
    path: PathBuf,
}

fn from_template(template: &Path, paths: &[PathBuf]) -> Result<(DocumentMut, Vec<Planned>)> {
    let text = std::fs::read_to_string(template)
        .map_err(|e| FormatError::io("cannot read the frontmatter", e).with_file(template))?;
    let place = |e: FormatError| e.with_file(template);
    let mut doc = frontmatter::parse(&text).map_err(place)?;
    frontmatter::strip_pad(&mut doc);
    let (declared, _) = frontmatter::declared(&doc, &text).map_err(place)?;
    frontmatter::modernise(&mut doc);
    let mut left: Vec<&PathBuf> = paths.iter().collect();
    let mut files = Vec::with_capacity(declared.len());
    for declared in declared {
        let entry = crate::Entry {
            name: declared.name.clone(),
            format: declared.format.clone(),
            size: None,
            kind: None,
            range: 0..0,
        };
        let wanted = file_name(&entry).map_err(place)?;
        let at = left.iter().position(|p| p.ends_with(&wanted) || p.ends_with(&declared.name));
        let at = at.ok_or_else(|| {
            FormatError::new(
                ErrorKind::Missing,
                format!("`{}` is declared, but there is no file `{}`", declared.name, wanted.display()),
            )
            .cure("Add the file, or remove the entry")
            .with_file(template)
        })?;
        files.push(Planned { declared, path: left.remove(at).clone() });
    }
    if !left.is_empty() {
        let names: Vec<String> = left.iter().map(|p| p.display().to_string()).collect();
        return Err(FormatError::new(ErrorKind::Refused, format!("files that are not declared: {}", list(&names, 10)))
            .cure("Declare them, or take them away")
            .with_file(template));
    }
    Ok((doc, files))
}

fn from_names(paths: &[PathBuf], output: &Path, options: &PackOptions) -> Result<(DocumentMut, Vec<Planned>)> {
    let stem = |p: &Path| p.file_stem().map(|n| n.to_string_lossy().into_owned());
    let is_model = options.types.iter().any(|t| t == "model");
    let mut count: HashMap<String, usize> = HashMap::new();
    for path in paths {
        *count.entry(stem(path).unwrap_or_default()).or_default() += 1;
    }
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let stem = stem(path).unwrap_or_default();
        let whole = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned());
        // Two files that differ in their extensions keep them in their names.
        let name = if count.get(&stem) == Some(&1) { stem } else { whole };
        frontmatter::check_name(&name).map_err(|e| e.with_file(path))?;
        let size = if is_text(path)? { None } else { Some(0) };
        files.push(Planned {
            declared: Declared {
                name,
                format: extension.unwrap_or_else(|| if size.is_none() { "txt" } else { "bin" }.into()),
                size,
                kind: None,
            },
            path: path.clone(),
        });
    }
    let rank = |name: &str| ORDER.iter().position(|n| *n == name);
    files.sort_by_key(|f| {
        let name = f.declared.name.clone();
        let known = if is_model { rank(&name) } else { None };
        // Files that a model does not know stand between its text and its weights.
        let place = known.map_or(ORDER.len() - 2, |at| if at + 1 == ORDER.len() { ORDER.len() } else { at });
        (if is_model { place } else { usize::from(f.declared.size.is_some()) }, name)
    });
    let own = stem(output).unwrap_or_default();
    let name = options.name.as_deref().unwrap_or(&own);
    let mut doc = frontmatter::new(name, &options.types, is_model.then_some(FORMAT_VERSION));
    for (index, file) in files.iter_mut().enumerate() {
        if is_model && file.declared.name == "weights" {
            file.declared.size = Some(0);
            file.declared.format = "tensors".into();
        }
        if let Some(earlier) = doc.get("files").and_then(|f| f.as_array_of_tables()) {
            let same = |t: &toml_edit::Table| t.get("name").and_then(|n| n.as_str()) == Some(&file.declared.name);
            if earlier.iter().any(same) {
                return Err(FormatError::new(
                    ErrorKind::Refused,
                    format!("two files would be named `{}`", file.declared.name),
                )
                .cure("Rename one of them")
                .with_file(&file.path));
            }
        }
        frontmatter::insert(&mut doc, index, &file.declared)?;
    }
    Ok((doc, files))
}

/// Whether a file is stored as text: short enough to be scanned, UTF-8, no NUL.
fn is_text(path: &Path) -> Result<bool> {
    Ok(match length(path)? {
        n if n > DEFAULT_MAX_TEXT / 2 => false,
        _ => {
            let bytes = std::fs::read(path).map_err(|e| FormatError::io("cannot read the file", e).with_file(path))?;
            std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0)
        }
    })
}

fn length(path: &Path) -> Result<u64> {
    let meta = std::fs::metadata(path).map_err(|e| FormatError::io("cannot read the file", e).with_file(path))?;
    Ok(meta.len())
}

/// Reads a text file; a long one, and any beyond what readers scan, is stored with its size.
fn part(file: &Planned, text_left: &mut u64) -> Result<Part<'static>> {
    let path = &file.path;
    let len = length(path)?;
    let name = file.declared.name.clone();
    if file.declared.size.is_some() || len > *text_left {
        return Ok(Part { name, content: Content::Path(path.clone(), len), sized: true });
    }
    let bytes = std::fs::read(path).map_err(|e| FormatError::io("cannot read the file", e).with_file(path))?;
    *text_left -= len;
    Ok(Part { name, sized: std::str::from_utf8(&bytes).is_err(), content: Content::Owned(bytes) })
}
