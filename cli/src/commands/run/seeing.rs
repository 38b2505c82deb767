//! `tallow run --image` with a model that writes about pictures.

use crate::ui::Ui;
use anyhow::{Result, bail};
use std::io::IsTerminal;
use std::path::PathBuf;
use tallow::picture::Picture;
use tallow::{Error, Model};

/// The pictures and the prompt. A prompt behind `--image` is taken for one more file by the parser of arguments: the last
/// that is no file is the prompt, and so is the only one.
pub fn pictures(model: &Model, files: &[PathBuf], prompt: Option<String>, ui: &Ui) -> Result<(Vec<Picture>, String)> {
    let mut files = files.to_vec();
    let missing: Vec<usize> = (0..files.len()).filter(|&at| !files[at].exists()).collect();
    let prompt = match (prompt, missing.as_slice()) {
        (None, [.., last]) if files.len() > 1 && (*last == files.len() - 1 || missing.len() == 1) => {
            Some(files.remove(*last).to_string_lossy().into_owned())
        }
        (prompt, _) => prompt,
    };
    let prompt = match prompt {
        Some(prompt) if prompt != "-" => prompt,
        Some(_) => super::read_prompt()?,
        None if !std::io::stdin().is_terminal() => super::read_prompt().map_err(|_| no_prompt(model))?,
        None => bail!(no_prompt(model)),
    };
    let pictures = files.iter().map(|file| super::pictures::read(file, ui)).collect::<tallow::Result<Vec<_>>>()?;
    Ok((pictures, prompt))
}

fn no_prompt(model: &Model) -> Error {
    Error::Usage(format!(
        "{}: writes about pictures and needs a PROMPT beside --image, as `tallow run MODEL --image cat.png \"Describe the picture.\"`",
        model.file().label()
    ))
}
