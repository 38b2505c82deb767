//! The options that say what a graph is taken from.

use crate::options::{GraphPath, Reading, resolve};
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tallow::compiled;
use tallow::{Opened, Source};

/// What makes a graph of a model, a program or a graph file. The same options hold for each source of a command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where the graph comes from")]
pub struct SourceOptions {
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
    /// The model whose config and tensors a program is compiled for, or whose tensors a graph file reads.
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Which graph of a program that has several: `main`, or `encoder` for what runs once before a text.
    #[arg(long, value_name = "NAME")]
    graph: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

impl SourceOptions {
    /// Opens `source` with these options; the storyteller without one. What its front end says goes to stderr.
    pub fn open(&self, source: Option<&Path>, ui: &Ui) -> tallow::Result<Opened> {
        let source = Source {
            path: source,
            from: self.path.map(Into::into),
            config: self.config.as_deref(),
            tensors: self.tensors.as_deref(),
            model: self.model.as_deref(),
            graph: self.graph.as_deref(),
            read: self.reading.options(),
        };
        let opened = source.open(&mut |path| resolve(path, ui))?;
        opened.notes.iter().for_each(|n| ui.warn(n));
        if let Some(program) = &opened.program {
            ui.note(compiled::describe(&program.module));
        }
        Ok(opened)
    }
}

/// A form of a graph, by what it promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StageName {
    /// As the front end made it.
    Raw,
    /// Simplified; the same on every device.
    Portable,
    /// Fused for the CPU.
    Target,
}

impl From<StageName> for tallow::compiler::Stage {
    fn from(stage: StageName) -> Self {
        match stage {
            StageName::Raw => tallow::compiler::Stage::Raw,
            StageName::Portable => tallow::compiler::Stage::Portable,
            StageName::Target => tallow::compiler::Stage::Target,
        }
    }
}
