//! The options that say what a graph is taken from.

use crate::options::{GraphPath, Reading, resolve};
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tallow::compiled;
use tallow::compiler::Stage;
use tallow::graph_file::Form;
use tallow::{Error, Opened, Source};

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
        open(&source, ui)
    }
}

fn open(source: &Source<'_>, ui: &Ui) -> tallow::Result<Opened> {
    let opened = source.open(&mut |path| resolve(path, ui))?;
    opened.notes.iter().for_each(|n| ui.warn(n));
    if let Some(program) = &opened.program {
        ui.note(compiled::describe(&program.module));
    }
    Ok(opened)
}

/// What holds for one of two sources, in place of what holds for both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own<'a> {
    pub path: Option<GraphPath>,
    pub config: Option<&'a Path>,
    pub model: Option<&'a Path>,
    pub graph: Option<&'a str>,
}

impl SourceOptions {
    /// Refuses options that go with none of the sources.
    pub fn check_for(&self, sources: &[&Path]) -> tallow::Result<()> {
        let is = |kind| sources.iter().any(|path| Kind::of(path) == kind);
        let wrong = [
            (self.path.is_some(), is(Kind::Model), "--path is for models"),
            (self.config.is_some(), is(Kind::Program), "--config goes with a program"),
            (self.model.is_some(), is(Kind::Program) || is(Kind::Graph), "--model goes with a program or a graph"),
            (self.graph.is_some(), is(Kind::Model) || is(Kind::Program), "--graph goes with a program"),
        ];
        match wrong.into_iter().find(|(given, fits, _)| *given && !fits) {
            Some((_, _, why)) => Err(Error::Usage(format!("{why}, and there is none here"))),
            None => Ok(()),
        }
    }

    /// Opens one of two sources. Of the options that hold for both it takes those that go with it; what is compiled or
    /// read for a model is so for the other source, if that is one and nothing else is said.
    pub fn open_side(&self, file: &Path, own: &Own<'_>, other: &Path, ui: &Ui) -> tallow::Result<Opened> {
        let kind = Kind::of(file);
        let own_says = own.config.is_some() || own.model.is_some();
        let common = |fits: bool| fits && !own_says;
        let config = own.config.or(self.config.as_deref().filter(|_| common(kind == Kind::Program)));
        let model = own.model.or(self.model.as_deref().filter(|_| common(kind != Kind::Model)));
        let needs_model = kind == Kind::Program || Form::of(file).is_some_and(|form| form != Form::Text);
        let of_other = (needs_model && Kind::of(other) == Kind::Model).then_some(other);
        let model = if config.is_none() { model.or(of_other) } else { model };
        let source = Source {
            path: Some(file),
            from: own.path.or(self.path.filter(|_| kind == Kind::Model)).map(Into::into),
            config,
            tensors: self.tensors.as_deref().filter(|_| kind == Kind::Program && config.is_some()),
            model,
            graph: own.graph.or(self.graph.as_deref().filter(|_| kind != Kind::Graph)),
            read: self.reading.options(),
        };
        open(&source, ui)
    }
}

/// What a path names, by its ending.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Program,
    Graph,
}

impl Kind {
    fn of(path: &Path) -> Kind {
        match (compiled::ProgramFile::language(path), Form::of(path)) {
            (Some(_), _) => Kind::Program,
            (None, Some(_)) => Kind::Graph,
            (None, None) => Kind::Model,
        }
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

impl From<StageName> for Stage {
    fn from(stage: StageName) -> Self {
        match stage {
            StageName::Raw => Stage::Raw,
            StageName::Portable => Stage::Portable,
            StageName::Target => Stage::Target,
        }
    }
}
