//! `tallow cat`: one section on stdout.

use super::Reading;
use crate::ui::Ui;
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::format::{Container, tools};

/// Print one section of a .cyb or .model file, byte for byte.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow cat qwen.model config\n  \
    tallow cat qwen.model program > program.rs")]
pub struct Cat {
    /// A .cyb or .model file.
    file: PathBuf,
    /// The section; `frontmatter` is the part before the first one, unless a section has that name.
    section: String,
    #[command(flatten)]
    reading: Reading,
}

impl Cat {
    pub fn execute(self, _ui: &Ui) -> Result<ExitCode> {
        let container = Container::open_with(&self.file, &self.reading.options())?;
        let bytes = match self.section.as_str() {
            "frontmatter" if container.entry("frontmatter").is_none() => container.frontmatter_text().as_bytes(),
            name => tools::cat(&container, name)?,
        };
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
