//! `tallow compile`: a model's graph as text, as a graph section, or for other programs.

use crate::commands::tools::refuse_existing;
use crate::options::{GraphPath, Reading, resolve};
use crate::ui::Ui;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::format::{AtomicFile, GraphFormat, ModelFile};
use tallow::frontends::graph_section;
use tallow::ir::dump::{Detail, dot, json, mermaid};
use tallow::ir::{Graph, text};

/// How a graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The readable text form; it is read back.
    Txt,
    /// The graph section's form: the binary layout in lowercase hex; it is read back.
    Hex,
    /// The graph section as tables; it is read back.
    Toml,
    /// Every node with typed attributes, for other programs.
    Json,
    /// A drawing for Graphviz.
    Dot,
    /// A flowchart for Mermaid.
    Mmd,
}

impl Format {
    /// The format of a file's ending.
    pub fn of(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_string_lossy().to_lowercase();
        Some(match ending.as_str() {
            "txt" => Format::Txt,
            "hex" => Format::Hex,
            "toml" => Format::Toml,
            "json" => Format::Json,
            "dot" | "gv" => Format::Dot,
            "mmd" | "mermaid" => Format::Mmd,
            _ => return None,
        })
    }

    /// The whole of a graph.
    pub fn render(self, graph: &Graph) -> Result<String> {
        Ok(match self {
            Format::Txt => text::print(graph),
            Format::Hex => graph_section::of_graph(GraphFormat::Hex, graph)?,
            Format::Toml => graph_section::of_graph(GraphFormat::Toml, graph)?,
            Format::Json => format!("{:#}\n", json(graph)),
            Format::Dot => dot(graph, Detail::Full),
            Format::Mmd => mermaid(graph, Detail::Full),
        })
    }
}

/// Compile a model to its graph.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow compile qwen.model -o graph.txt\n  \
    tallow compile qwen.model --format hex > graph.hex\n  \
    tallow compile qwen.model -o graph.json")]
pub struct Compile {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Where the graph comes from.
    #[arg(long, value_enum, default_value_t)]
    path: GraphPath,
    #[command(flatten)]
    output: Output,
    /// Format on stdout, or of a file with another ending.
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    reading: Reading,
}

impl Compile {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let by_ending = self.output.output.as_deref().map(|path| (path, Format::of(path)));
        let format = match (self.format, by_ending) {
            (Some(format), _) | (None, Some((_, Some(format)))) => format,
            (None, None) => Format::Txt,
            (None, Some((path, None))) => bail!(
                "{}: no graph format goes with this ending; use .txt, .hex, .toml, .json, .dot or .mmd, or say --format",
                path.display()
            ),
        };
        self.output.check()?;
        let file = open(self.model.as_deref(), &self.reading, ui)?;
        let (graph, notes) = tallow::model::graph(&file, self.path.into())?;
        notes.iter().for_each(|n| ui.warn(n));
        self.output.put(&format.render(graph.graph())?, graph.graph(), ui)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where a graph is written.
#[derive(Args)]
pub struct Output {
    /// The file to write, in the format of its ending.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
}

impl Output {
    /// An error where the output exists and may not be replaced.
    pub fn check(&self) -> Result<()> {
        self.output.as_ref().map_or(Ok(()), |path| refuse_existing(path, self.force))
    }

    /// Writes the text of a graph, to stdout where no file is named.
    pub fn put(&self, text: &str, graph: &Graph, ui: &Ui) -> Result<()> {
        let Some(path) = &self.output else {
            return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
        };
        let mut out = AtomicFile::create(path).map_err(tallow::Error::from)?;
        out.write_all(text.as_bytes())?;
        out.commit().map_err(tallow::Error::from)?;
        ui.note(format!("wrote {} ({} nodes)", path.display(), graph.len()));
        Ok(())
    }
}

/// The model at `source`, imported into the cache first where needed; the storyteller without a source.
pub fn open(source: Option<&Path>, reading: &Reading, ui: &Ui) -> Result<ModelFile> {
    match source {
        Some(source) => {
            Ok(ModelFile::open_with(&resolve(source, ui)?, &reading.options()).map_err(tallow::Error::from)?)
        }
        None => Ok(tallow::model::storyteller_file()?),
    }
}
