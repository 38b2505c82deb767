//! `tallow inspect`: what is in a file.

mod facts;
mod json;
mod print;

use crate::commands::tools::{LateBar, Reading, hash};
use crate::ui::Ui;
use anyhow::Result;
use clap::Args;
use facts::Facts;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::format::hash::{Digests, hash_bytes, hash_file};
use tallow::format::{ErrorKind, FormatError};

/// Show what is in a .cyb or .model file.
///
/// Of a model: its card, config, tensors by encoding, tokenizer, sampling, chat template, scores,
/// the ways in which it can run, and its inputs and outputs. No weight is read.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow inspect\n  \
    tallow inspect qwen.model\n  \
    tallow inspect qwen.model --tensors --hash\n  \
    tallow inspect qwen.model --json | jq .model.encodings")]
pub struct Inspect {
    /// A .cyb or .model file; without it the embedded storyteller.
    file: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also compute the hashes of the whole file.
    #[arg(long)]
    hash: bool,
    /// Show the whole card and every value at full length.
    #[arg(long)]
    full: bool,
    /// List every tensor.
    #[arg(long)]
    tensors: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Inspect {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let (mut facts, problem) = match &self.file {
            Some(path) => {
                refuse_sources(path)?;
                Facts::of(path, &self.reading.options(), self.full)?
            }
            None => (Facts::of_model(tallow::model::storyteller_file()?, self.full), None),
        };
        if self.hash {
            facts.digests = Some(self.digests(&facts, ui)?);
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{:#}", json::object(&facts, problem.as_ref(), self.tensors))?;
        } else {
            out.write_all(print::page(&facts, self.full, self.tensors).as_bytes())?;
        }
        out.flush()?;
        match problem {
            // What could be read has been shown; that the model cannot be used is an error all the same.
            Some(problem) => Err(problem.into()),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    fn digests(&self, facts: &Facts, ui: &Ui) -> Result<Digests> {
        let mut bar = LateBar::new(ui, "hashing");
        Ok(match &self.file {
            Some(path) => hash_file(path, hash::all(), &mut |done, total| bar.tick(done, total))?,
            None => hash_bytes(facts.container().bytes(), hash::all())?,
        })
    }
}

/// An error for what is imported first. A GGUF file with another ending is told by the reader.
fn refuse_sources(path: &Path) -> Result<(), FormatError> {
    if !path.exists() || !tallow::library::needs_import(path) {
        return Ok(());
    }
    let what = if path.is_dir() { "a folder" } else { "a model of another format" };
    Err(FormatError::new(
        ErrorKind::Malformed,
        format!("this is {what}, and `tallow inspect` reads .cyb and .model files"),
    )
    .cure(format!("Import it with `tallow import {} -o FILE.model`, and inspect that", path.display()))
    .with_file(path))
}
