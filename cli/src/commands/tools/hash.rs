//! `tallow hash`: the identity of files.

use super::LateBar;
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::format::hash::{self, Digests, HAS_HEMERA, Which};

/// Print the hashes of files: SHA-256 and hemera of all bytes.
///
/// Hemera takes a second for every 8 MB. Where a file cannot be read the others still are.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow hash qwen.model\n  \
    tallow hash --sha256 *.model\n  \
    tallow hash --json notes.cyb")]
pub struct Hash {
    /// Any files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// SHA-256 alone.
    #[arg(long)]
    sha256: bool,
    /// Print one JSON array with an object for each file.
    #[arg(long)]
    json: bool,
}

impl Hash {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let mut done = Vec::new();
        let mut worst = 0;
        for path in &self.files {
            let which = if self.sha256 { Which::Sha256 } else { all() };
            let mut bar = LateBar::new(ui, format!("hashing {}", path.display()));
            let digests = hash::hash_file(path, which, &mut |done, total| bar.tick(done, total));
            drop(bar);
            let digests = match digests {
                Ok(digests) => digests,
                Err(error) if ui::interrupted() => return Err(error.into()),
                Err(error) => {
                    let error = super::refused(error).into();
                    ui.error(&error);
                    worst = worst.max(ui::exit_code(&error));
                    continue;
                }
            };
            if self.json {
                let mut value = to_json(&digests);
                value["file"] = json!(path.display().to_string());
                done.push(value);
            } else {
                for (name, digest) in lines(&digests) {
                    writeln!(out, "{name}  {digest}  {}", path.display())?;
                }
            }
        }
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&done)?)?;
        }
        Ok(ExitCode::from(worst))
    }
}

/// Every hash that this build has.
pub fn all() -> Which {
    if HAS_HEMERA { Which::Both } else { Which::Sha256 }
}

/// Names and digests.
pub fn lines(digests: &Digests) -> Vec<(&'static str, &str)> {
    let mut lines = vec![("sha256", digests.sha256.as_str())];
    lines.extend(digests.hemera.as_deref().map(|h| ("hemera", h)));
    lines
}

/// The length and every digest.
pub fn to_json(digests: &Digests) -> serde_json::Value {
    let mut value = json!({ "bytes": digests.bytes });
    for (name, digest) in lines(digests) {
        value[name] = json!(digest);
    }
    value
}
