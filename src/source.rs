//! Anything that can become a graph: a model by one of its paths, a program with what it is compiled for, or a graph in
//! a file of its own.

use crate::compiled::{self, ProgramFile};
use crate::graph_file::{Form, GraphFile};
use crate::{Error, Path as GraphPath, Result, library, model};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallow_compiler::{Optimised, Options, Stage, optimise};
use tallow_executor::Interpreter;
use tallow_format::{ModelFile, ReadOptions};
use tallow_frontends::program::Module;
use tallow_frontends::program::diagnostic::Lines;
use tallow_frontends::program::module::{ENCODER, MAIN};
use tallow_ir::NodeId;
use tallow_ir::verify::{Verified, verify};

/// What a graph is taken from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// A model, a program (`.rs`, `.tri`) or a graph (`.txt`, `.hex`, `.toml`); without it the storyteller.
    pub path: Option<&'a Path>,
    /// Where the graph of a model comes from.
    pub from: Option<GraphPath>,
    /// The config that a program is compiled for.
    pub config: Option<&'a Path>,
    /// The tensor index that a program is compiled for, beside a config.
    pub tensors: Option<&'a Path>,
    /// The model whose config and tensors a program, and whose tensors a graph, is for.
    pub model: Option<&'a Path>,
    /// Which graph of a program that has several.
    pub graph: Option<&'a str>,
    /// Limits on reading models.
    pub read: ReadOptions,
}

/// A graph with where it is from.
#[derive(Debug)]
pub struct Opened {
    /// What messages call it.
    pub label: String,
    /// The graph as the front end made it.
    pub graph: Verified,
    /// What its front end had to say.
    pub notes: Vec<String>,
    /// The model that holds its weights.
    pub file: Option<Arc<ModelFile>>,
    /// The program that it is compiled from.
    pub program: Option<Written>,
}

/// A compiled program with its text.
#[derive(Debug)]
pub struct Written {
    /// What it compiled to.
    pub module: Module,
    /// Which of its graphs this is.
    pub graph: String,
    /// What messages call it.
    pub name: String,
    /// Its text.
    pub source: String,
}

impl Written {
    /// Line and column, both from 1, of what made each operation.
    pub fn places(&self) -> HashMap<NodeId, (usize, usize)> {
        let lines = Lines::new(&self.source);
        let spans = self.module.spans.get(&self.graph);
        let place = |start: u32| {
            let place = lines.place(start);
            (place.line, place.column)
        };
        spans.into_iter().flatten().map(|(&node, span)| (NodeId::from_index(node), place(span.start))).collect()
    }
}

impl Opened {
    /// The graph of an opened model.
    ///
    /// # Errors
    /// As [`Source::open`] for a model.
    pub fn of_model(file: Arc<ModelFile>, from: GraphPath) -> Result<Opened> {
        Source { from: Some(from), ..Source::default() }.open_model(file)
    }

    /// The graph compiled up to a stage, for the CPU.
    ///
    /// # Errors
    /// Faults of the compiler alone.
    pub fn compiled(&self, stage: Stage) -> Result<Optimised> {
        let options = Options { stage, evaluate: Some(&Interpreter), ..Options::default() };
        optimise(&self.graph, &options).map_err(|e| Error::Executor(e.into()))
    }

    /// The graph at a stage.
    ///
    /// # Errors
    /// As [`Opened::compiled`].
    pub fn at_stage(&self, stage: Stage) -> Result<Verified> {
        match stage {
            Stage::Raw => Ok(self.graph.clone()),
            Stage::Portable | Stage::Target => Ok(self.compiled(stage)?.graph),
        }
    }
}

impl Source<'_> {
    /// Whether the path names a graph or a program, by its ending; else it is a model.
    pub fn is_model(&self) -> bool {
        self.path.is_none_or(|path| Form::of(path).is_none() && ProgramFile::language(path).is_none())
    }

    /// Opens it. `resolve` gives the `.model` file of a model, which may have to be imported first
    /// ([`crate::library::resolve`]).
    ///
    /// # Errors
    /// Options that do not go with what the path names; files that cannot be read; and whatever the front end refuses.
    pub fn open(&self, resolve: &mut dyn FnMut(&Path) -> Result<PathBuf>) -> Result<Opened> {
        let mut model = |path: &Path| library::open(path, &resolve(path)?, &self.read).map(Arc::new);
        match self.path {
            Some(path) if ProgramFile::language(path).is_some() => self.open_program(path, &mut model),
            Some(path) if Form::of(path).is_some() => {
                self.only(path, "a graph already", self.from.is_some(), "--path is for models")?;
                self.only(path, "a graph already", self.config.is_some(), "--config goes with a program")?;
                self.only(path, "a graph already", self.graph.is_some(), "--graph goes with a program")?;
                let file = self.model.map(&mut model).transpose()?;
                let graph = GraphFile::read(path, file.as_deref())?.graph;
                Ok(Opened { label: path.display().to_string(), graph, notes: Vec::new(), file, program: None })
            }
            path => {
                let path_shown = path.unwrap_or(Path::new("the storyteller"));
                self.only(path_shown, "a model", self.config.is_some(), "--config goes with a program")?;
                self.only(path_shown, "a model", self.model.is_some(), "--model goes with a program or a graph")?;
                let file = match path {
                    Some(path) => model(path)?,
                    None => Arc::new(model::storyteller_file()?),
                };
                self.open_model(file)
            }
        }
    }

    fn only(&self, path: &Path, what: &str, given: bool, why: &str) -> Result<()> {
        match given {
            true => Err(Error::Usage(format!("{} is {what}; {why}", path.display()))),
            false => Ok(()),
        }
    }

    fn open_program(&self, path: &Path, model: &mut dyn FnMut(&Path) -> Result<Arc<ModelFile>>) -> Result<Opened> {
        self.only(path, "a program", self.from.is_some(), "--path is for models")?;
        let (module, file) = match (self.config, self.model) {
            (Some(_), Some(_)) => {
                return Err(Error::Usage(format!(
                    "{} is compiled for a config or for a model; give --config or --model, not both",
                    path.display()
                )));
            }
            (Some(config), None) => (ProgramFile { program: path, config, tensors: self.tensors }.compile()?, None),
            (None, Some(of)) => {
                let file = model(of)?;
                (compiled::compile_for(path, &file)?, Some(file))
            }
            (None, None) => {
                return Err(Error::Usage(format!(
                    "{}: a program is compiled for a config; give --config FILE, or --model MODEL",
                    path.display()
                )));
            }
        };
        let name = path.display().to_string();
        let source = compiled::text(path)?;
        self.of_module(name.clone(), module, file, name, source)
    }

    fn open_model(&self, file: Arc<ModelFile>) -> Result<Opened> {
        // A program may have other graphs than the one that a model runs.
        let module = match self.from {
            Some(GraphPath::Program) => compiled::module(&file)?,
            from => {
                let model::Found { graph, notes, module, once, .. } = model::find(&file, from.unwrap_or_default())?;
                if let Some(module) = module {
                    return self.of_written(file, module);
                }
                let graph = match (self.graph, once) {
                    (None | Some(MAIN), _) => graph,
                    (Some(ENCODER), Some(once)) => once,
                    (Some(name), _) => {
                        return Err(Error::Usage(format!(
                            "{}: has no graph `{name}`; {MAIN} runs for each token, and {ENCODER} once before a text where \
                             there is one",
                            file.label()
                        )));
                    }
                };
                return Ok(Opened { label: file.label(), graph, notes, file: Some(file), program: None });
            }
        };
        self.of_written(file, module)
    }

    /// The wanted graph of a model's program.
    fn of_written(&self, file: Arc<ModelFile>, module: Module) -> Result<Opened> {
        let (label, name) = (file.label(), format!("program of {}", file.label()));
        let source = file.program().map_or("", |(_, source)| source).to_owned();
        self.of_module(label, module, Some(file), name, source)
    }

    /// The wanted graph of a program.
    fn of_module(
        &self,
        label: String,
        module: Module,
        file: Option<Arc<ModelFile>>,
        name: String,
        source: String,
    ) -> Result<Opened> {
        let wanted = self.graph.unwrap_or(MAIN);
        let graph = match module.graphs.get(wanted) {
            Some(graph) if graph.outputs().next().is_none() => {
                return Err(Error::Unsupported(format!(
                    "{label}: the program computes no tensors, and a graph holds those"
                )));
            }
            Some(graph) => {
                verify(graph.clone()).map_err(|e| Error::Graph { file: label.clone(), source: Box::new(e) })?
            }
            None => {
                let known: Vec<&str> = module.graphs.keys().map(String::as_str).collect();
                return Err(Error::Usage(format!(
                    "{label}: the program has no graph `{wanted}`; it has {}",
                    known.join(", ")
                )));
            }
        };
        let notes = module.notes.clone();
        let program = Some(Written { module, graph: wanted.to_owned(), name, source });
        Ok(Opened { label, graph, notes, file, program })
    }
}
