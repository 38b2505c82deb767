//! `tallow run --image`: what a model says of pictures.

use super::texts::warn_of_cut;
use crate::ui::{self, Ui};
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
        let seen = ui::waiting(|| model.see(&Picture::read(file)?))?;
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
                    .map(|(name, probability)| vec![share(*probability), ui::printable(name).into_owned()])
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

/// Prints how well each text fits each file.
pub fn compare(model: &Model, files: &[PathBuf], texts: &[String], json: bool, ui: &Ui) -> Result<ExitCode> {
    let pictures = files.iter().map(|file| Picture::read(file)).collect::<Result<Vec<_>, _>>()?;
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut encoder = model.encoder()?;
    let all = ui::waiting(|| encoder.compare(&pictures, &plain))?;
    warn_of_cut(&encoder, ui);
    let mut out = std::io::stdout().lock();
    if json {
        let image = |(file, scores): (&PathBuf, &Vec<f32>)| {
            let fits = |(text, score): (&String, &f32)| serde_json::json!({ "text": text, "score": score });
            let texts: Vec<_> = texts.iter().zip(scores).map(fits).collect();
            serde_json::json!({ "file": file, "texts": texts })
        };
        let images: Vec<_> = files.iter().zip(&all).map(image).collect();
        writeln!(out, "{}", serde_json::json!({ "images": images }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (file, scores) in files.iter().zip(&all) {
        if files.len() > 1 {
            writeln!(out, "{}", file.display())?;
        }
        let mut ranked: Vec<(&String, &f32)> = texts.iter().zip(scores).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(a.1));
        let row = |(text, score): (&String, &f32)| vec![share(*score), ui::printable(text).into_owned()];
        write!(out, "{}", ui::table(&ranked.into_iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A probability for people.
fn share(probability: f32) -> String {
    format!("{:.1} %", probability * 100.0)
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
