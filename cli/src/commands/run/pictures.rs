//! `tallow run --image`: what a model says of pictures.

use super::texts::{label_json, number, warn_of_cut};
use super::times::{self, Times};
use crate::ui::{self, Ui};
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tallow::picture::{Picture, Seen};
use tallow::{Error, Model};

/// Labels of a picture that people are shown.
const SHOWN: usize = 5;
/// Numbers of an embedding that people are shown.
const FIRST: usize = 6;

/// Reads a picture file, and says what of it is not looked at.
pub fn read(file: &Path, ui: &Ui) -> tallow::Result<Picture> {
    let picture = Picture::read(file).map_err(|error| match error {
        // The parser of arguments takes all that stands behind `--image` for files.
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound && is_prose(file) => {
            Error::Usage(format!(
                "--image: there is no file `{}`; give a text by --text, or a prompt before --image",
                ui::printable(&file.display().to_string())
            ))
        }
        other => other,
    })?;
    if picture.count() > 1 {
        ui.warn(format!("{}: holds {} pictures; the first is looked at", file.display(), picture.count()));
    }
    Ok(picture)
}

/// Whether a name looks like words.
fn is_prose(file: &Path) -> bool {
    file.extension().is_none() && file.to_string_lossy().contains(' ')
}

/// Prints what the model says of each file.
pub fn run(model: &Model, files: &[PathBuf], json: bool, load: f64, ui: &Ui) -> Result<ExitCode> {
    let started = Instant::now();
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let seen = ui::waiting(|| model.see(&read(file, ui)?))?;
        match json {
            true => all.push(as_json(file, &seen)),
            false => show(file, &seen, files.len() > 1)?,
        }
    }
    let times = Times { load, run: started.elapsed().as_secs_f64() };
    if json {
        ui::answer(&format!("{}\n", times.add_to(json!({ "images": all }), model)))?;
    }
    ui.note(times.line(&ui::count(files.len(), "picture")));
    Ok(ExitCode::SUCCESS)
}

/// What the model says of a file, for people.
fn show(file: &Path, seen: &Seen, named: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if named {
        writeln!(out, "{}", file.display())?;
    }
    match seen {
        Seen::Labels(labels) => {
            let rows: Vec<Vec<String>> = labels
                .iter()
                .take(SHOWN)
                .map(|label| vec![share(label.score), ui::printable(&label.label).into_owned()])
                .collect();
            write!(out, "{}", ui::table(&rows))?;
        }
        Seen::Embedding(values) => {
            let norm = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let first: Vec<String> = values.iter().take(FIRST).map(|x| format!("{x:.4}")).collect();
            writeln!(out, "{} numbers, length {norm:.4}: {} …", values.len(), first.join(" "))?;
        }
    }
    Ok(())
}

/// Prints how well each text fits each file.
pub fn compare(model: &Model, files: &[PathBuf], texts: &[String], json: bool, load: f64, ui: &Ui) -> Result<ExitCode> {
    let started = Instant::now();
    let mut encoder = model.encoder()?;
    let pictures = files.iter().map(|file| read(file, ui)).collect::<Result<Vec<_>, _>>()?;
    let plain: Vec<&str> = texts.iter().map(String::as_str).collect();
    let all = ui::waiting(|| encoder.compare(&pictures, &plain))?;
    let times = Times { load, run: started.elapsed().as_secs_f64() };
    warn_of_cut(&encoder, ui);
    if json {
        let image = |(file, scores): (&PathBuf, &Vec<f32>)| {
            let fits = |(text, score): (&String, &f32)| json!({ "text": text, "score": number(*score) });
            let texts: Vec<_> = texts.iter().zip(scores).map(fits).collect();
            json!({ "file": file, "texts": texts })
        };
        let images: Vec<_> = files.iter().zip(&all).map(image).collect();
        let value = times::add_tokens(json!({ "images": images }), &encoder);
        ui::answer(&format!("{}\n", times.add_to(value, model)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    for (file, scores) in files.iter().zip(&all) {
        if files.len() > 1 {
            writeln!(out, "{}", file.display())?;
        }
        let mut ranked: Vec<(&String, &f32)> = texts.iter().zip(scores).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(a.1));
        let row = |(text, score): (&String, &f32)| vec![share(*score), ui::printable(text).into_owned()];
        write!(out, "{}", ui::table(&ranked.into_iter().map(row).collect::<Vec<_>>()))?;
    }
    drop(out);
    let counted = format!("{}, {}", ui::count(files.len(), "picture"), times::texts(texts.len(), &encoder));
    ui.note(times.line(&counted));
    Ok(ExitCode::SUCCESS)
}

/// A probability for people.
fn share(probability: f32) -> String {
    format!("{:.1} %", probability * 100.0)
}

fn as_json(file: &Path, seen: &Seen) -> Value {
    match seen {
        Seen::Labels(labels) => json!({ "file": file, "labels": labels.iter().map(label_json).collect::<Value>() }),
        Seen::Embedding(values) => {
            json!({ "file": file, "embedding": values.iter().copied().map(number).collect::<Value>() })
        }
    }
}
