//! `tallow run --image`: what a model says of pictures.

use crate::ui;
use anyhow::Result;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::Model;
use tallow::picture::{Picture, Seen};

/// Labels of a picture that people are shown.
const SHOWN: usize = 5;
/// Numbers of an embedding that people are shown.
const FIRST: usize = 6;

/// Prints what the model says of each file.
pub fn run(model: &Model, files: &[PathBuf], json: bool) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let seen = model.see(&Picture::read(file)?)?;
        if json {
            all.push(as_json(file, &seen));
            continue;
        }
        if files.len() > 1 {
            writeln!(out, "{}", file.display())?;
        }
        match seen {
            Seen::Labels(labels) => {
                let rows: Vec<Vec<String>> = labels
                    .iter()
                    .take(SHOWN)
                    .map(|(name, share)| vec![format!("{:.1} %", share * 100.0), ui::printable(name).into_owned()])
                    .collect();
                write!(out, "{}", ui::table(&rows))?;
            }
            Seen::Embedding(values) => {
                let norm = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                let first: Vec<String> = values.iter().take(FIRST).map(|x| format!("{x:.4}")).collect();
                writeln!(out, "{} numbers, length {norm:.4}: {} …", values.len(), first.join(" "))?;
            }
        }
    }
    if json {
        writeln!(out, "{}", serde_json::json!({ "images": all }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(file: &std::path::Path, seen: &Seen) -> serde_json::Value {
    match seen {
        Seen::Labels(labels) => {
            let labels: Vec<_> =
                labels.iter().map(|(name, share)| serde_json::json!({ "label": name, "score": share })).collect();
            serde_json::json!({ "file": file, "labels": labels })
        }
        Seen::Embedding(values) => serde_json::json!({ "file": file, "embedding": values }),
    }
}
