//! `tallow compile`: a model's graph as text, as a graph section, or for other programs.

use crate::commands::tools::refuse_existing;
use crate::options::{Reading, resolve};
use crate::remarks;
use crate::source::{SourceOptions, StageName};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::compiler::passes::{self, PASSES};
use tallow::compiler::{Options, PassReport, Stage, optimise};
use tallow::executor::Interpreter;
use tallow::format::{AtomicFile, GraphFormat, ModelFile};
use tallow::frontends::graph_section;
use tallow::ir::dump::{Detail, dot, json, mermaid};
use tallow::ir::{Graph, text};
use tallow::{Error, library};

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

/// Compile a model, a program or a graph file to its graph, and optimise it.
///
/// SOURCE is a .model file, a GGUF file or a Hugging Face folder; a program in a .rs or .tri file, which is
/// compiled for a config and a tensor index of its own, or for those of a model; or a graph in a .txt, .hex or
/// .toml file. Without other options the graph is written as its front end made it; --stage says how far it is
/// optimised, and --remarks, --passes, --stop-after and --emit-each optimise it all the way for the CPU.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow compile qwen.model -o graph.txt\n  \
    tallow compile qwen.model --format hex > graph.hex\n  \
    tallow compile qwen.model --path program -o graph.txt\n  \
    tallow compile decoder.rs --config config.toml --tensors tensors.toml -o graph.txt\n  \
    tallow compile decoder.rs --model qwen.model -o graph.txt\n  \
    tallow compile qwen.model --remarks\n  \
    tallow compile qwen.model --stage portable -o simpler.txt\n  \
    tallow compile qwen.model --stop-after 40 -o half.txt\n  \
    tallow compile qwen.model --emit-each passes/")]
pub struct Compile {
    /// A model, a program or a graph; without it the storyteller.
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    #[command(flatten)]
    from: SourceOptions,
    #[command(flatten)]
    output: Output,
    /// Format on stdout, or of a file with another ending.
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    passes: PassOptions,
}

/// How a graph is optimised.
#[derive(Args)]
#[command(next_help_heading = "Optimising")]
struct PassOptions {
    /// How far the graph is optimised.
    #[arg(long, value_enum, conflicts_with = "passes")]
    stage: Option<StageName>,
    /// Run these passes in this order, and no others; `--passes list` names them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    passes: Option<Vec<String>>,
    /// Apply the first N patches only: halve N until the faulty patch is found.
    #[arg(long, value_name = "N")]
    stop_after: Option<u32>,
    /// Tell every candidate of every pass, applied or missed and why; on stdout, in place of the graph unless
    /// that goes to a file.
    #[arg(long)]
    remarks: bool,
    /// With the remarks, tell how long each pass took.
    #[arg(long, requires = "remarks")]
    timings: bool,
    /// Remarks as one JSON object.
    #[arg(long, requires = "remarks")]
    json: bool,
    /// Write the graph as text after each pass that changed it, into this folder.
    #[arg(long, value_name = "DIR")]
    emit_each: Option<PathBuf>,
    /// Check the graph against all rules after each pass.
    #[arg(long)]
    verify: bool,
}

impl PassOptions {
    /// An error where a pass is not known, or none would run.
    fn check(&self) -> Result<()> {
        if self.stage() == Stage::Raw && self.optimises() {
            bail!(Error::Usage("no pass runs at the stage raw; leave out --stage, or say portable or target".into()));
        }
        let names = self.passes.as_deref().unwrap_or_default();
        passes::named(names).map_err(|e| Error::Usage(e.to_string()))?;
        Ok(())
    }

    /// Whether something is asked for that only makes sense with passes.
    fn optimises(&self) -> bool {
        self.stop_after.is_some() || self.remarks || self.emit_each.is_some() || self.verify
    }

    /// The stage that is asked for, by itself or by what only makes sense with it.
    fn stage(&self) -> Stage {
        match self.stage {
            Some(stage) => stage.into(),
            None if self.optimises() || self.passes.is_some() => Stage::Target,
            None => Stage::Raw,
        }
    }
}

impl Compile {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        if self.passes.passes.as_ref().is_some_and(|p| *p == ["list"]) {
            std::io::stdout().lock().write_all(listing().as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        self.passes.check()?;
        let graph_is_written =
            self.output.output.is_some() || !(self.passes.remarks || self.passes.emit_each.is_some());
        if self.format.is_some() && !graph_is_written {
            bail!(Error::Usage("--format is for the graph, which goes to a file beside remarks: add -o FILE".into()));
        }
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
        let opened = self.from.open(self.source.as_deref(), ui)?;
        let emitted = self.passes.emit_each.as_deref().map(Emitted::new).transpose()?;
        if let Some(emitted) = &emitted {
            emitted.write(0, "raw", opened.graph.graph())?;
        }
        let failed = std::cell::RefCell::new(None);
        let observe = |pass: &PassReport, graph: &Graph| {
            if let Some(Err(error)) = emitted.as_ref().map(|e| e.write(pass.number, pass.name, graph)) {
                failed.borrow_mut().get_or_insert(error);
            }
        };
        let options = Options {
            stage: self.passes.stage(),
            passes: self.passes.passes.clone(),
            stop_after: self.passes.stop_after,
            verify: self.passes.verify,
            evaluate: Some(&Interpreter),
            observe: emitted.is_some().then_some(&observe as &dyn Fn(&PassReport, &Graph)),
            ..Options::default()
        };
        let made = optimise(&opened.graph, &options).map_err(|e| Error::Executor(e.into()))?;
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        if self.passes.remarks {
            let text = match self.passes.json {
                true => format!("{:#}\n", remarks::json(&made, self.passes.timings)),
                false => remarks::text(&made, self.passes.timings, ui.paints_stdout()),
            };
            std::io::stdout().lock().write_all(text.as_bytes())?;
            if self.output.output.is_none() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let Some(emitted) = emitted.filter(|_| self.output.output.is_none()) {
            ui.note(format!("wrote {} graphs to {}", emitted.count.get(), emitted.folder.display()));
            return Ok(ExitCode::SUCCESS);
        }
        let graph = made.graph.graph();
        let text = format.render(graph).map_err(|e| Error::Graph { file: opened.label.clone(), source: e.into() })?;
        // The folder of graphs may hold it by now.
        self.output.check()?;
        self.output.put(&text, graph, ui)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The passes, for people.
fn listing() -> String {
    let rows = PASSES.iter().map(|p| vec![p.name.to_owned(), p.stage.name().to_owned(), p.doc.to_owned()]);
    ui::table(&rows.collect::<Vec<_>>())
}

/// A folder that takes the graph after each pass.
struct Emitted {
    folder: PathBuf,
    count: std::cell::Cell<usize>,
}

impl Emitted {
    /// Makes the folder, or takes an empty one: nothing that is there is written over.
    fn new(folder: &Path) -> Result<Self> {
        let io = |source| tallow::Error::Io { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(io)?;
        if std::fs::read_dir(folder).map_err(io)?.next().is_some() {
            bail!(Error::Usage(format!("{}: is not empty; give a new folder for the graphs", folder.display())));
        }
        Ok(Emitted { folder: folder.to_owned(), count: std::cell::Cell::new(0) })
    }

    fn write(&self, number: usize, name: &str, graph: &Graph) -> Result<()> {
        let mut out =
            AtomicFile::create(&self.folder.join(format!("{number:02}-{name}.txt"))).map_err(tallow::Error::from)?;
        out.write_all(text::print(graph).as_bytes())?;
        out.commit().map_err(tallow::Error::from)?;
        self.count.set(self.count.get() + 1);
        Ok(())
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
        self.write_as(text, &format!(" ({} nodes)", graph.len()), ui)
    }

    /// Writes a text, to stdout where no file is named.
    pub fn write(&self, text: &str, ui: &Ui) -> Result<()> {
        self.write_as(text, "", ui)
    }

    fn write_as(&self, text: &str, about: &str, ui: &Ui) -> Result<()> {
        let Some(path) = &self.output else {
            return Ok(std::io::stdout().lock().write_all(text.as_bytes())?);
        };
        let mut out = AtomicFile::create(path).map_err(tallow::Error::from)?;
        out.write_all(text.as_bytes())?;
        out.commit().map_err(tallow::Error::from)?;
        ui.note(format!("wrote {}{about}", path.display()));
        Ok(())
    }
}

/// The model at `source`, imported into the cache first where needed; the storyteller without a source.
pub fn open(source: Option<&Path>, reading: &Reading, ui: &Ui) -> Result<ModelFile> {
    match source {
        Some(source) => Ok(library::open(source, &resolve(source, ui)?, &reading.options())?),
        None => Ok(tallow::model::storyteller_file()?),
    }
}
