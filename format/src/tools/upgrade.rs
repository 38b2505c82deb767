//! Brings a `.model` from before `format_version = 2` up to date.

use std::path::Path;

use toml_edit::{DocumentMut, Item};

use super::assemble;
use super::edit::Destination;
use super::reencode::{self, Reencoded};
use super::{Progress, stopped};
use crate::FORMAT_VERSION;
use crate::atomic::AtomicFile;
use crate::config::Config;
use crate::container::{Container, ReadOptions};
use crate::encoding::Encoding;
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::frontmatter;
use crate::model::{ModelFile, section, weights_of};
use crate::tensors::TensorIndex;
use crate::writer::{Header, HeaderFile, ModelWriter, TensorPlan};

/// What the encoding names of an old file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meanings {
    /// IEEE f32, IEEE f16, GGUF Q4_0 and GGUF Q8_0 under the names `u32`, `u16`, `q4` and `q8`.
    Legacy,
    /// The fixed-point meanings of today; only `format_version` is missing.
    Canonical,
}

impl Meanings {
    /// The value of `--meanings`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Canonical => "canonical",
        }
    }

    /// The meanings of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Legacy, Self::Canonical].into_iter().find(|m| m.name() == name)
    }
}

/// What [`upgrade`] did.
#[derive(Clone, Debug, PartialEq)]
pub struct Upgraded {
    /// The meanings that were taken.
    pub meanings: Meanings,
    /// Where they come from: what was asked for, or what the file says.
    pub because: &'static str,
    /// Every tensor, in order; empty where no byte of the weights changed.
    pub tensors: Vec<Reencoded>,
    /// What is odd about the result, or why it still cannot be opened.
    pub warnings: Vec<String>,
}

/// Writes an upgraded copy, or replaces the file.
///
/// `meanings` may be left out where the file settles them: numbers in the integer conventions, or no tensor whose
/// encoding ever had another meaning, speak for canonical. With canonical meanings only `format_version` is added.
pub fn upgrade(
    path: &Path,
    meanings: Option<Meanings>,
    to: &Destination,
    options: &ReadOptions,
    progress: Progress<'_>,
) -> Result<Upgraded> {
    let container = Container::open_with(path, options)?;
    let place = |e: FormatError| e.with_file(path);
    check_upgradable(&container).map_err(place)?;
    let weights = weights_of(&container).map_err(place)?;
    let length = weights.len() as u64;
    let index = section(&container, "tensors", |text| TensorIndex::parse(text, length))
        .and_then(|index| index.ok_or_else(|| missing("tensors")))
        .map_err(place)?;
    let config = section(&container, "config", Config::parse)
        .and_then(|config| config.ok_or_else(|| missing("config")))
        .map_err(place)?;
    let (meanings, because) = settle(meanings, &config, &index).map_err(place)?;

    let mut doc = container.frontmatter().clone();
    frontmatter::strip_pad(&mut doc);
    set_version(&mut doc);
    let target = match to {
        Destination::InPlace => path,
        Destination::File(other) => other,
    };
    let tensors = match meanings {
        Meanings::Canonical => {
            let mut file = AtomicFile::create(target)?;
            let parts = assemble::parts_of(&container);
            assemble::write(&mut file, doc, &parts, Some("weights")).map_err(|e| e.with_file(target))?;
            drop(parts);
            file.commit()?;
            Vec::new()
        }
        Meanings::Legacy => rewrite(&container, &weights, doc, &index, target, progress)?,
    };
    let warnings = match ModelFile::open_with(target, options) {
        Ok(model) => model.warnings().to_vec(),
        Err(error) => vec![format!("the upgraded model still cannot be opened: {error}")],
    };
    Ok(Upgraded { meanings, because, tensors, warnings })
}

fn missing(name: &str) -> FormatError {
    FormatError::new(ErrorKind::Missing, format!("the model has no `{name}`"))
        .cure("Import the model again from its source")
}

fn check_upgradable(container: &Container) -> Result<()> {
    let types = container.types();
    if !types.iter().any(|t| t == "model") {
        return Err(FormatError::new(
            ErrorKind::Refused,
            format!("this is no model, so there is nothing to upgrade: its types are {}", list(&types, 10)),
        )
        .cure("Only a `.model` has a format version"));
    }
    let version = container.frontmatter().get("cyb").and_then(|c| c.get("format_version"));
    match version.and_then(Item::as_integer) {
        Some(FORMAT_VERSION) => Err(FormatError::new(
            ErrorKind::Refused,
            format!("the model already has `format_version = {FORMAT_VERSION}`"),
        )
        .cure("It needs no upgrade")),
        Some(version) if version > FORMAT_VERSION => Err(FormatError::new(
            ErrorKind::Unsupported,
            format!("`format_version` is {version}; this version of Tallow writes {FORMAT_VERSION}"),
        )
        .cure("Use a newer Tallow")),
        _ => Ok(()),
    }
}

/// Which meanings to take, and why.
fn settle(asked: Option<Meanings>, config: &Config, index: &TensorIndex) -> Result<(Meanings, &'static str)> {
    if let Some(meanings) = asked {
        return Ok((meanings, "they were asked for"));
    }
    if config.uses_integer_conventions() {
        return Ok((
            Meanings::Canonical,
            "the config writes its numbers in the integer conventions (an ε of at least 1, or a `scale` for sampling)",
        ));
    }
    if index.iter().all(|t| reencode::legacy_type(t.encoding).is_none()) {
        return Ok((Meanings::Canonical, "no tensor has an encoding whose name ever meant something else"));
    }
    Err(FormatError::new(
        ErrorKind::Version,
        "nothing in the file says whether its encodings have their legacy or their canonical meanings",
    )
    .cure("Say `--meanings legacy` (IEEE f32 and f16, GGUF Q4_0 and Q8_0: files from importers before version 2) or `--meanings canonical` (fixed-point numbers)"))
}

fn set_version(doc: &mut DocumentMut) {
    if let Some(cyb) = doc.get_mut("cyb").and_then(Item::as_table_like_mut) {
        match cyb.get_mut("format_version").and_then(Item::as_value_mut) {
            Some(value) => {
                let decor = value.decor().clone();
                *value = FORMAT_VERSION.into();
                *value.decor_mut() = decor;
            }
            None => {
                cyb.insert("format_version", toml_edit::value(FORMAT_VERSION));
            }
        }
    }
}

/// Writes the model with its weights encoded anew; all other files keep their bytes.
fn rewrite(
    container: &Container,
    weights: &std::ops::Range<usize>,
    doc: DocumentMut,
    index: &TensorIndex,
    target: &Path,
    progress: Progress<'_>,
) -> Result<Vec<Reencoded>> {
    let texts: Vec<HeaderFile> = container
        .entries()
        .iter()
        .filter(|e| e.name != "weights")
        .map(|e| HeaderFile {
            name: e.name.clone(),
            content: container.bytes()[e.range.clone()].to_vec(),
            sized: e.size.is_some(),
        })
        .collect();
    let plan = index
        .iter()
        .map(|t| TensorPlan {
            name: t.name.clone(),
            shape: t.shape.clone(),
            candidates: reencode::candidates(t).into_iter().map(|(e, _)| e).collect::<Vec<Encoding>>(),
        })
        .collect();
    let mut writer = ModelWriter::with_header(target, Header::keeping(doc, texts), plan)?;
    let mut done: Vec<Reencoded> = Vec::with_capacity(index.len());
    let mut bytes_done = 0;
    let mut sources = std::collections::HashMap::new();
    for entry in index.iter() {
        let key = (entry.offset, entry.size, entry.encoding);
        let earlier: Option<&usize> = sources.get(&key);
        if let Some(earlier) = earlier.map(|&at| &done[at]).filter(|e| plan_allows(entry, e.to)) {
            let report = Reencoded { name: entry.name.clone(), ..earlier.clone() };
            writer.share(&entry.name, &earlier.name)?;
            done.push(report);
        } else {
            let start = weights.start + entry.offset as usize;
            let range = start..start + entry.size as usize;
            let (report, bytes) = reencode::reencode(entry, &container.bytes()[range.clone()])
                .map_err(|e| e.with_label(&container.label()))?;
            writer.begin(&entry.name, report.to)?;
            writer.write(&bytes)?;
            container.release(range);
            sources.insert(key, done.len());
            done.push(report);
        }
        bytes_done += entry.size;
        if !progress(bytes_done, weights.len() as u64) {
            return Err(stopped().with_file(target));
        }
    }
    writer.finish()?;
    Ok(done)
}

/// Whether a tensor that shares its bytes with another may take the same new encoding.
fn plan_allows(entry: &crate::TensorEntry, encoding: Encoding) -> bool {
    reencode::candidates(entry).iter().any(|(e, _)| *e == encoding)
}
