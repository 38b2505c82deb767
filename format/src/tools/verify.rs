//! The deep check: everything that opening a file leaves for later.

use std::path::Path;

use super::{Progress, stopped};
use crate::container::{Container, ReadOptions};
use crate::encoding::Encoding;
use crate::error::{ErrorKind, FormatError, Result};
use crate::eval::benchmarks;
use crate::model::{GraphFormat, ModelFile, section};
use crate::tensors::TensorEntry;

/// What [`verify`] found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Everything that is wrong, at most one problem per tensor.
    pub problems: Vec<FormatError>,
    /// What is odd without being wrong.
    pub warnings: Vec<String>,
    /// Files in the container.
    pub files: usize,
    /// Tensors whose stored bytes were checked.
    pub tensors: usize,
    /// Bytes of tensors that were checked.
    pub bytes: u64,
}

/// Checks a container, and of a model also each stored value: ternary codes, finite scales; the vocabulary against the
/// config; benchmarks; the digits of the graph. Trouble becomes part of the report; the error is for stopped work only.
pub fn verify(path: &Path, options: &ReadOptions, progress: Progress<'_>) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let container = match Container::open_with(path, options) {
        Ok(container) => container,
        Err(error) => {
            report.problems.push(error);
            return Ok(report);
        }
    };
    report.files = container.entries().len();
    if !container.types().iter().any(|t| t == "model") {
        report.warnings = container.warnings().to_vec();
        return Ok(report);
    }
    match ModelFile::from_container(container) {
        Ok(model) => verify_model(&model, &mut report, progress)?,
        Err(error) => report.problems.push(error),
    }
    Ok(report)
}

fn verify_model(model: &ModelFile, report: &mut VerifyReport, progress: Progress<'_>) -> Result<()> {
    let label = model.label();
    report.warnings = model.warnings().to_vec();
    let note = |report: &mut VerifyReport, result: Result<()>| {
        report.problems.extend(result.err().map(|e| e.with_label(&label)));
    };
    let mut odd = Vec::new();
    note(report, vocabulary(model, &mut odd));
    report.warnings.append(&mut odd);
    note(report, section(model.container(), "eval", |text| benchmarks(text).map(drop)).map(drop));
    note(report, graph_digits(model));
    let total = model.weights().len() as u64;
    for entry in model.tensors().iter() {
        note(report, ternary_scale(model, entry));
        let bytes = &model.container().bytes()[model.range_of(entry)];
        let result = stored_values(entry, bytes, |done| progress(report.bytes + done, total.max(report.bytes + done)));
        report.bytes += entry.size;
        report.tensors += 1;
        match result {
            Ok(true) => {}
            Ok(false) => return Err(stopped()),
            Err(error) => note(report, Err(error)),
        }
        model.release_pages(&entry.name);
    }
    Ok(())
}

/// Checks the bytes of one tensor a chunk at a time. `Ok(false)` when `go_on` said so.
fn stored_values(entry: &TensorEntry, bytes: &[u8], mut go_on: impl FnMut(u64) -> bool) -> Result<bool> {
    let block = entry.encoding.block_bytes();
    let blocks = ((4 << 20) / block).max(1);
    for (index, chunk) in bytes.chunks(blocks * block).enumerate() {
        entry.encoding.check(chunk).map_err(|e| {
            let e = e.shifted(index * blocks * entry.encoding.block_len());
            FormatError::new(ErrorKind::Malformed, e.to_string())
                .cure("The weights are damaged: fetch or import the model again")
                .at(format!("tensor `{}`", entry.name))
        })?;
        if !go_on((index * blocks * block + chunk.len()) as u64) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The scale beside a ternary tensor is `u32`, one value or one per row.
fn ternary_scale(model: &ModelFile, entry: &TensorEntry) -> Result<()> {
    if entry.encoding != Encoding::Ternary {
        return Ok(());
    }
    let name = format!("{}.scale", entry.name);
    let Some(scale) = model.tensors().get(&name) else {
        return Ok(());
    };
    let rows = entry.shape.first().copied().unwrap_or(1);
    let values = scale.values();
    if scale.encoding == Encoding::U32 && (values == 1 || values == rows) {
        return Ok(());
    }
    Err(FormatError::new(
        ErrorKind::Mismatch,
        format!("the scale has {values} values in `{}`, but `{}` has {rows} rows", scale.encoding.name(), entry.name),
    )
    .cure("A scale is `u32`, one value or one per row")
    .at(format!("tensor `{name}`")))
}

fn vocabulary(model: &ModelFile, odd: &mut Vec<String>) -> Result<()> {
    let vocab = model.vocab()?;
    odd.extend(vocab.warnings());
    if vocab.is_empty() {
        return Ok(());
    }
    let place = |e: FormatError| e.or_at("config");
    let config = model.config();
    if let Some(size) = config.architecture().u64("vocab_size").map_err(place)?
        && vocab.len() as u64 > size
    {
        // Models are published so; the tokens beyond have no row, and are never chosen.
        odd.push(format!(
            "the greatest token id is {}, but `architecture.vocab_size` is {size}: the last tokens cannot be used",
            vocab.len() - 1
        ));
    }
    let mut ids = model.end_ids(&vocab)?;
    ids.extend(config.bos_id().map_err(place)?);
    for id in ids {
        if vocab.token(id).is_none() {
            odd.push(format!("the config names the token id {id}, which the vocabulary does not hold"));
        }
    }
    Ok(())
}

fn graph_digits(model: &ModelFile) -> Result<()> {
    let Some((GraphFormat::Hex, text)) = model.graph() else {
        return Ok(());
    };
    let digits = text.bytes().filter(|b| !b.is_ascii_whitespace());
    let (mut count, mut wrong) = (0usize, None);
    for b in digits {
        count += 1;
        if !b.is_ascii_hexdigit() {
            wrong.get_or_insert(b);
        }
    }
    let cause = match wrong {
        Some(b) => format!("the graph holds {:?}, which is no hexadecimal digit", char::from(b)),
        None if count % 2 != 0 => {
            format!("the graph has {count} hexadecimal digits, an odd number")
        }
        None => return Ok(()),
    };
    Err(FormatError::new(ErrorKind::Malformed, cause).cure("Make the graph again with `tallow compile`").at("graph"))
}
