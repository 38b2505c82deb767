//! `tallow verify`: the deep check.

use super::{LateBar, Reading, clean};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::format::tools::{self, VerifyReport};
use tallow::format::{ErrorKind, FormatError};

/// Check a .cyb or .model file: its structure, and of a model every stored number.
///
/// Exit code 0 where nothing is wrong, 1 where something is, 3 where the file cannot be read, 4
/// where it is of a kind that this version does not know.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow verify qwen.model\n  \
    tallow verify qwen.model --json")]
pub struct Verify {
    /// A .cyb or .model file.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Verify {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let mut bar = LateBar::new(ui, "checking");
        let report = tools::verify(&self.file, &self.reading.options(), &mut |done, total| bar.tick(done, total));
        drop(bar);
        let mut report = report?;
        let sound = sound(&report);
        let unanswered = if sound.is_none() && !self.json { report.problems.pop() } else { None };
        if let Some(error) = unanswered {
            return Err(error.into());
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{:#}", to_json(&self.file.display().to_string(), &report))?;
        } else {
            print(&mut out, &self.file.display().to_string(), &report)?;
        }
        Ok(ExitCode::from(match (sound, report.problems.first()) {
            (Some(true), _) => 0,
            (Some(false), _) => 1,
            (None, Some(first)) if first.is_unsupported() => 4,
            (None, _) => 3,
        }))
    }
}

/// The answer; `None` where the file could not be read or is of an unknown kind, so that there is none.
fn sound(report: &VerifyReport) -> Option<bool> {
    let answers = |e: &FormatError| !e.is_unsupported() && e.kind() != ErrorKind::Io;
    if report.problems.is_empty() {
        return Some(true);
    }
    report.problems.iter().any(answers).then_some(false)
}

fn print(out: &mut impl Write, file: &str, report: &VerifyReport) -> std::io::Result<()> {
    for problem in &report.problems {
        writeln!(out, "wrong: {}", clean(&problem.to_string()))?;
    }
    for warning in &report.warnings {
        writeln!(out, "odd: {}", clean(warning))?;
    }
    let looked = match report.tensors {
        0 => plural(report.files, "section"),
        n => format!("{}, {}, {}", plural(report.files, "section"), plural(n, "tensor"), ui::bytes(report.bytes)),
    };
    match report.problems.len() {
        0 => writeln!(out, "{file}: sound ({looked} checked)"),
        n => writeln!(out, "{file}: {} ({looked} checked)", plural(n, "fault")),
    }
}

fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn to_json(file: &str, report: &VerifyReport) -> serde_json::Value {
    let problem = |e: &FormatError| {
        json!({
            "message": e.to_string(),
            "place": e.place(),
            "cause": e.cause(),
            "cure": e.cure_text(),
            "unsupported": e.is_unsupported(),
        })
    };
    json!({
        "file": file,
        "sound": sound(report),
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "warnings": report.warnings,
        "sections": report.files,
        "tensors": report.tensors,
        "bytes": report.bytes,
    })
}
