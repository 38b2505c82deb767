//! `tallow compile`: a model's graph as text, as a graph section, or for other programs.

use crate::commands::tools::refuse_existing;
use crate::options::{GraphPath, Reading, resolve};
use crate::ui::Ui;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::Error;
use tallow::compiled::{self, ProgramFile};
use tallow::format::{AtomicFile, GraphFormat, ModelFile};
use tallow::frontends::graph_section;
use tallow::frontends::program::Module;
use tallow::frontends::program::module::MAIN;
use tallow::ir::dump::{Detail, dot, json, mermaid};
use tallow::ir::{Graph, text, verify};

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

/// Compile a model, or a program, to its graph.
///
/// SOURCE is a .model file, a GGUF file or a Hugging Face folder, or a program in a .rs or .tri file, which is
/// compiled for a config and a tensor index of its own, or for those of a model.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow compile qwen.model -o graph.txt\n  \
    tallow compile qwen.model --format hex > graph.hex\n  \
    tallow compile qwen.model -o graph.json\n  \
    tallow compile qwen.model --path program -o graph.txt\n  \
    tallow compile decoder.rs --config config.toml --tensors tensors.toml -o graph.txt\n  \
    tallow compile decoder.rs --model qwen.model -o graph.txt")]
pub struct Compile {
    /// A model, or a program; without it the storyteller.
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// Where the graph of a model comes from; by default the graph section where there is one, else the
    /// family, else the program.
    #[arg(long, value_enum)]
    path: Option<GraphPath>,
    /// The config that a program is compiled for.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    config: Option<PathBuf>,
    /// The tensor index that a program is compiled for; without it shapes follow from the calls alone.
    #[arg(long, value_name = "FILE", requires = "config")]
    tensors: Option<PathBuf>,
    /// The model whose config and tensors a program is compiled for.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Which graph of a program that has several: `main`, or `encoder` for what runs once before a text.
    #[arg(long, value_name = "NAME")]
    graph: Option<String>,
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
        let graph = self.graph(ui)?;
        self.output.put(&format.render(&graph)?, &graph, ui)?;
        Ok(ExitCode::SUCCESS)
    }

    fn graph(&self, ui: &Ui) -> Result<Graph> {
        let program = self.source.as_deref().filter(|path| ProgramFile::language(path).is_some());
        if let Some(program) = program {
            if self.path.is_some() {
                bail!(Error::Usage(format!("{} is a program; --path is for models", program.display())));
            }
            let module = match (&self.config, &self.model) {
                (Some(config), _) => ProgramFile { program, config, tensors: self.tensors.as_deref() }.compile()?,
                (None, Some(model)) => compiled::compile_for(program, &open(Some(model), &self.reading, ui)?)?,
                (None, None) => bail!(Error::Usage(format!(
                    "{}: a program is compiled for a config; give --config FILE, or --model MODEL",
                    program.display()
                ))),
            };
            return self.graph_of(&module, ui);
        }
        if let Some(given) = self.config.as_ref().or(self.model.as_ref()) {
            bail!(Error::Usage(format!("{} goes with a program in a .rs or .tri file", given.display())));
        }
        let file = open(self.source.as_deref(), &self.reading, ui)?;
        let path = self.path.unwrap_or_default();
        if let GraphPath::Program = path {
            return self.graph_of(&compiled::module(&file)?, ui);
        }
        if let Some(name) = &self.graph {
            bail!(Error::Usage(format!("--graph {name} is for programs; add --path program")));
        }
        let (graph, notes) = tallow::model::graph(&file, path.into())?;
        notes.iter().for_each(|n| ui.warn(n));
        Ok(graph.into_inner())
    }

    /// The wanted graph of a program.
    fn graph_of(&self, module: &Module, ui: &Ui) -> Result<Graph> {
        module.notes.iter().for_each(|n| ui.warn(n));
        ui.note(compiled::describe(module));
        let wanted = self.graph.as_deref().unwrap_or(MAIN);
        match module.graphs.get(wanted) {
            Some(graph) if graph.outputs().next().is_none() => {
                bail!(Error::Unsupported("the program computes no tensors, and a graph holds those".into()))
            }
            Some(graph) => Ok(verify(graph.clone()).map_err(anyhow::Error::from)?.into_inner()),
            None => {
                let known: Vec<&str> = module.graphs.keys().map(String::as_str).collect();
                bail!(Error::Usage(format!("the program has no graph `{wanted}`; it has {}", known.join(", "))))
            }
        }
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
