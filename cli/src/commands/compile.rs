//! `tallow compile`: a model's graph as text or as a graph section.

use crate::commands::tools::refuse_existing;
use crate::options::{GraphPath, Reading, resolve};
use crate::ui::Ui;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::format::{AtomicFile, ModelFile};
use tallow::ir::Graph;

/// How a graph is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// The readable text form.
    Txt,
    /// The graph section's form: the binary layout in lowercase hex.
    Hex,
}

/// Compile a model to its graph.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow compile qwen.model -o graph.txt\n  \
    tallow compile qwen.model --format hex > graph.hex")]
pub struct Compile {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Where the graph comes from.
    #[arg(long, value_enum, default_value_t)]
    path: GraphPath,
    /// The file to write, in the format of its ending: .txt or .hex.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// Format on stdout, or of a file with another ending.
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    reading: Reading,
}

impl Compile {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let ending = self.output.as_ref().and_then(|p| p.extension()).map(|e| e.to_string_lossy().to_lowercase());
        let format = match (self.format, ending.as_deref()) {
            (Some(format), _) => format,
            (None, Some("txt")) | (None, None) => Format::Txt,
            (None, Some("hex")) => Format::Hex,
            (None, Some(other)) => bail!("no graph format goes with .{other}; use .txt or .hex, or say --format"),
        };
        if let Some(path) = &self.output {
            refuse_existing(path, self.force)?;
        }
        let file = match &self.model {
            Some(source) => {
                ModelFile::open_with(&resolve(source, ui)?, &self.reading.options()).map_err(tallow::Error::from)?
            }
            None => tallow::model::storyteller_file()?,
        };
        let (graph, notes) = tallow::model::graph(&file, self.path.into())?;
        notes.iter().for_each(|n| ui.warn(n));
        let text = render(graph.graph(), format)?;
        match &self.output {
            Some(path) => {
                let mut out = AtomicFile::create(path).map_err(tallow::Error::from)?;
                out.write_all(text.as_bytes())?;
                out.commit().map_err(tallow::Error::from)?;
                ui.note(format!("wrote {} ({} nodes)", path.display(), graph.graph().len()));
            }
            None => std::io::stdout().lock().write_all(text.as_bytes())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render(graph: &Graph, format: Format) -> Result<String> {
    Ok(match format {
        Format::Txt => tallow::ir::text::print(graph),
        Format::Hex => tallow::ir::hex::encode(&tallow::ir::binary::RawGraph::from_graph(graph)?.write()) + "\n",
    })
}
