//! `tallow dump`: a graph to look at.

use crate::commands::compile::{Format, Output, open};
use crate::options::{GraphPath, Reading};
use crate::ui::Ui;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::Error;
use tallow::graph_file::{Form, GraphFile};
use tallow::ir::Graph;
use tallow::ir::dump::{Detail, dot, folded, json, mermaid};
use tallow::ir::text;
use tallow::ir::verify::Verified;

/// Show the graph of a model, or of a graph file, with repeated layers folded.
///
/// FILE is a .model file, a GGUF file or a Hugging Face folder, or a graph in a .txt, .hex or .toml file.
/// Without FILE the storyteller is shown. What `--full` prints without another option is the text form,
/// which can be read back; the folded text is for people only.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow dump qwen.model\n  \
    tallow dump qwen.model --full -o graph.txt\n  \
    tallow dump graph.hex --model qwen.model\n  \
    tallow dump qwen.model --dot | dot -Tsvg -o graph.svg\n  \
    tallow dump qwen.model --json | jq '.nodes | length'")]
pub struct Dump {
    /// A model, or a graph in a .txt, .hex or .toml file.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The model whose tensors a graph file reads.
    #[arg(long, value_name = "MODEL", requires = "file")]
    model: Option<PathBuf>,
    /// Where the graph of a model comes from; by default the graph section where there is one, else the
    /// family.
    #[arg(long, value_enum)]
    path: Option<GraphPath>,
    /// Every node, nothing folded.
    #[arg(long)]
    full: bool,
    /// Every node as JSON.
    #[arg(long, group = "form")]
    json: bool,
    /// A drawing in the language of Graphviz.
    #[arg(long, group = "form")]
    dot: bool,
    /// A flowchart in the language of Mermaid.
    #[arg(long, group = "form")]
    mermaid: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    reading: Reading,
}

impl Dump {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let format = self.format()?;
        self.output.check()?;
        let graph = self.graph(ui)?;
        self.output.put(&self.render(graph.graph(), format), graph.graph(), ui)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is asked for, else what the output's ending says, else text.
    fn format(&self) -> Result<Format> {
        let asked = [(self.json, Format::Json), (self.dot, Format::Dot), (self.mermaid, Format::Mmd)];
        if let Some((_, format)) = asked.into_iter().find(|(asked, _)| *asked) {
            return Ok(format);
        }
        let Some(path) = &self.output.output else { return Ok(Format::Txt) };
        match Format::of(path) {
            Some(format @ (Format::Txt | Format::Json | Format::Dot | Format::Mmd)) => Ok(format),
            Some(Format::Hex | Format::Toml) => {
                bail!("{}: a dump is for looking at; `tallow compile -o FILE` writes graph sections", path.display())
            }
            None => bail!(
                "no form of a dump goes with {}; use .txt, .json, .dot or .mmd, or say --json, --dot or --mermaid",
                path.display()
            ),
        }
    }

    fn graph(&self, ui: &Ui) -> Result<Verified> {
        if let Some(path) = self.file.as_deref().filter(|path| Form::of(path).is_some()) {
            if self.path.is_some() {
                bail!(Error::Usage(format!("{} is a graph already; --path is for models", path.display())));
            }
            let model = self.model.as_deref().map(|source| open(Some(source), &self.reading, ui)).transpose()?;
            return Ok(GraphFile::read(path, model.as_ref())?.graph);
        }
        if let (Some(file), Some(_)) = (&self.file, &self.model) {
            bail!(Error::Usage(format!("--model goes with a graph file, and {} is none", file.display())));
        }
        let file = open(self.file.as_deref(), &self.reading, ui)?;
        let (graph, notes) = tallow::model::graph(&file, self.path.unwrap_or_default().into())?;
        notes.iter().for_each(|n| ui.warn(n));
        Ok(graph)
    }

    fn render(&self, graph: &Graph, format: Format) -> String {
        let detail = if self.full { Detail::Full } else { Detail::Folded };
        match (format, detail) {
            (Format::Json, _) => format!("{:#}\n", json(graph)),
            (Format::Dot, _) => dot(graph, detail),
            (Format::Mmd, _) => mermaid(graph, detail),
            (Format::Txt | Format::Hex | Format::Toml, Detail::Folded) => folded(graph),
            (Format::Txt | Format::Hex | Format::Toml, Detail::Full) => text::print(graph),
        }
    }
}
