//! `tallow pack`: a container from files.

use super::{clean, refuse_existing, refused};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::format::tools::{self, PackOptions};

/// Make a .cyb or .model file from a folder or from files.
///
/// card.md becomes the section `card` of format md, and so on. A frontmatter.toml among the files,
/// as `tallow extract` writes it, gives names, order and every other setting.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow pack qwen/ -o qwen.model\n  \
    tallow pack notes.md data.toml picture.png -o notes.cyb --type notes")]
pub struct Pack {
    /// One folder, or files.
    #[arg(required = true, value_name = "FOLDER|FILE")]
    inputs: Vec<PathBuf>,
    /// The file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Name inside the container; by default the output's name without its ending.
    #[arg(long)]
    name: Option<String>,
    /// Type of the container; may be given several times. An output that ends in .model is a
    /// `model` where nothing else is said.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
}

impl Pack {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        refuse_existing(&self.output, self.force)?;
        let mut options = PackOptions { name: self.name, types: self.types };
        if options.types.is_empty() && is_model(&self.output) {
            options.types.push("model".into());
        }
        let packed = tools::pack(&self.inputs, &self.output, &options).map_err(refused)?;
        let mut rows = vec![["file", "format", "bytes"].map(String::from).to_vec()];
        rows.extend(packed.files.iter().map(|f| vec![clean(&f.name), clean(&f.format), f.bytes.to_string()]));
        ui.note(ui::table(&rows).trim_end());
        packed.warnings.iter().for_each(|w| ui.warn(clean(w)));
        ui.note(format!("wrote {}", self.output.display()));
        Ok(ExitCode::SUCCESS)
    }
}

fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("model"))
}
