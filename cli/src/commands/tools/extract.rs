//! `tallow extract`: sections as files in a folder.

use super::{Reading, clean};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::Error;
use tallow::format::{Container, ErrorKind, FormatError, tools};

/// Write sections of a .cyb or .model file into a folder.
///
/// A section becomes a file with its format as the ending: `card` of format md is card.md. All of
/// them together come with a frontmatter.toml, from which `tallow pack` makes the same container
/// again.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow extract qwen.model -o qwen\n  \
    tallow extract qwen.model card config -o qwen")]
pub struct Extract {
    /// A .cyb or .model file.
    file: PathBuf,
    /// The sections; all of them and the frontmatter where none is named.
    #[arg(value_name = "SECTION")]
    sections: Vec<String>,
    /// The folder to write into; made where needed.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Extract {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let container = Container::open_with(&self.file, &self.reading.options())?;
        let written = tools::extract(&container, &self.sections, &self.output, self.force)
            .map_err(|e| exists(e, &container.label()))?;
        for file in &written {
            ui.note(format!("wrote {} ({})", clean(&file.path.display().to_string()), ui::bytes(file.bytes)));
        }
        container.warnings().iter().for_each(|w| ui.warn(clean(w)));
        Ok(ExitCode::SUCCESS)
    }
}

/// A refusal about a file in the output folder, not about the container, is a matter of usage.
fn exists(error: FormatError, container: &str) -> Error {
    match (error.kind(), error.file()) {
        (ErrorKind::Refused, Some(file)) if file != container => {
            let cure = "extract into another folder, or give --force to replace files";
            Error::Usage(format!("{file}: {}; {cure}", error.cause()))
        }
        _ => Error::Format(error),
    }
}
