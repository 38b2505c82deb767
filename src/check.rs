//! Checks of a model: whether what can run it agrees, and whether its tensors are all read.

use crate::numeric::{self, Given, Side};
use crate::{Error, Opened, Result, compiled};
use std::collections::HashSet;
use std::sync::Arc;
use tallow_executor::{CacheType, Engine, ProgramOptions};
use tallow_format::ModelFile;
use tallow_frontends::program::Module;
use tallow_frontends::program::diagnostic::Lines;
use tallow_frontends::program::module::MAIN;
use tallow_frontends::{families, graph_section};
use tallow_ir::Graph;
use tallow_ir::diff::{Diff, diff};
use tallow_ir::verify::verify;

/// What a model's graph can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The graph section.
    Section,
    /// The family of the config.
    Family,
    /// The program section.
    Program,
}

impl Origin {
    /// The ways that a model has.
    fn of(file: &ModelFile) -> Vec<Origin> {
        let family = families::canonical_type(file.config().model_type()).is_some();
        let ways = [
            (Origin::Section, file.graph().is_some()),
            (Origin::Family, family),
            (Origin::Program, file.program().is_some()),
        ];
        ways.into_iter().filter(|(_, has)| *has).map(|(origin, _)| origin).collect()
    }

    fn path(self) -> crate::Path {
        match self {
            Origin::Section => crate::Path::Graph,
            Origin::Family => crate::Path::Family,
            Origin::Program => crate::Path::Program,
        }
    }

    /// As messages say it.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Section => "graph section",
            Origin::Family => "family",
            Origin::Program => "program",
        }
    }
}

/// One way to a graph: its graphs, or why it gives none.
pub struct Way {
    /// Where it comes from.
    pub origin: Origin,
    /// More about it: the family's type, the program's language.
    pub detail: String,
    /// The graph (of a program the one that runs for each token).
    pub graph: std::result::Result<Graph, Error>,
    /// The graph of a family that runs once before a text.
    pub once: Option<Graph>,
    /// The compiled program.
    pub module: Option<Module>,
}

/// Two ways whose graphs were compared.
pub struct Comparison {
    /// The first.
    pub left: Origin,
    /// The second.
    pub right: Origin,
    /// What differs, in the graphs of the ways.
    pub difference: Diff,
    /// For each entry of the difference where it stands in the program, shown on the source; empty where the first is
    /// no program, or has nothing there.
    pub places: Vec<String>,
}

/// What a check has found.
pub struct Report {
    /// Every way that the model has, whether it gives a graph or not.
    pub ways: Vec<Way>,
    /// Every pair of graphs.
    pub comparisons: Vec<Comparison>,
    /// Tensors that no graph reads.
    pub unread: Vec<String>,
}

impl Report {
    /// Whether something is wrong: a way that gives no graph, or a graph section that is another computation than the
    /// family on the same weights (unless `allow`). A program that differs is worth a warning alone.
    pub fn is_wrong(&self, allow: bool) -> bool {
        let contradicts = |c: &Comparison| {
            (c.left, c.right) == (Origin::Section, Origin::Family) && !c.difference.is_equal() && !allow
        };
        self.ways.iter().any(|w| w.graph.is_err()) || self.comparisons.iter().any(contradicts)
    }
}

/// Checks a model.
///
/// # Errors
/// A model that has none of a graph section, a program and a known type.
pub fn check(file: &ModelFile) -> Result<Report> {
    let mut ways = Vec::new();
    let graph_error = |e: Box<dyn std::error::Error + Send + Sync>| Error::Graph { file: file.label(), source: e };
    if let Some((format, text)) = file.graph() {
        let graph = graph_section::from_section(format, text, file.config(), file.tensors())
            .map_err(|e| graph_error(Box::new(e)))
            .and_then(|g| verify(g).map_err(|e| graph_error(Box::new(e))));
        let detail = format.name().to_owned();
        ways.push(Way {
            origin: Origin::Section,
            detail,
            graph: graph.map(|g| g.into_inner()),
            once: None,
            module: None,
        });
    }
    if let Some(model_type) = families::canonical_type(file.config().model_type()) {
        let (graph, once) = match families::build(file.config(), file.tensors()) {
            Ok(family) => (Ok(family.graph), family.once),
            Err(source) => (Err(Error::Family { file: file.label(), source: Box::new(source) }), None),
        };
        ways.push(Way { origin: Origin::Family, detail: model_type.to_owned(), graph, once, module: None });
    }
    if let Some((format, _)) = file.program() {
        let module = compiled::module(file);
        let (graph, module) = match module {
            Ok(module) => (compiled::main_graph(file, &module).map(|g| g.into_inner()), Some(module)),
            Err(error) => (Err(error), None),
        };
        ways.push(Way { origin: Origin::Program, detail: format.name().to_owned(), graph, once: None, module });
    }
    if ways.is_empty() {
        return Err(Error::Unsupported(format!(
            "{}: nothing gives it a graph: it has no graph section and no program, and no family is known for its type `{}`",
            file.label(),
            file.config().model_type()
        )));
    }
    let comparisons = compare(file, &ways)?;
    let unread = unread(file, &ways);
    Ok(Report { ways, comparisons, unread })
}

/// Two computations of a model that were run on the same inputs.
pub struct Agreement {
    /// The ways.
    pub origins: [Origin; 2],
    /// What was compared, for people: `family, raw` with `family, compiled`.
    pub of: [String; 2],
    /// How their numbers agree.
    pub report: numeric::Report,
}

impl Agreement {
    /// Whether something is wrong: numbers that differ between forms of one graph, which is a fault of the compiler, or
    /// between the graph section and the family (unless `allow`). A program that differs is worth a warning alone.
    pub fn is_wrong(&self, allow: bool) -> bool {
        let forms_of_one = self.origins[0] == self.origins[1];
        let of_program = self.origins.contains(&Origin::Program);
        !self.report.is_within() && (forms_of_one || !allow && !of_program)
    }
}

/// Runs a model on the same inputs in all its forms: the graph of each way, compiled for the CPU, against its raw form in
/// the plain interpreter; and the raw forms of all ways against each other.
///
/// # Errors
/// A way that gives no graph; inputs that do not fit; what fails while a graph runs.
pub fn agreements(file: &Arc<ModelFile>, given: &Given) -> Result<Vec<Agreement>> {
    let side = |origin: Origin, engine: Engine| -> Result<Side> {
        let mut opened = Opened::of_model(file.clone(), origin.path())?;
        let form = if engine == Engine::Cpu { "compiled" } else { "raw" };
        opened.label = format!("{}, {form}", origin.name());
        // Rows of caches at full precision: what is asked is whether the computations are the same.
        let options = ProgramOptions { engine, cache: CacheType::F32, ..ProgramOptions::default() };
        Side::of_opened(opened, Some(file), options)
    };
    let mut out = Vec::new();
    let mut first: Option<(Origin, Side)> = None;
    for origin in Origin::of(file) {
        let (raw, compiled) = (side(origin, Engine::Reference)?, side(origin, Engine::Cpu)?);
        let mut pairs = vec![(origin, &raw, &compiled)];
        pairs.extend(first.as_ref().map(|(of, first)| (*of, first, &raw)));
        for (of, left, right) in pairs {
            let inputs = numeric::inputs(&[left, right], given)?;
            let report = numeric::compare(left, right, &numeric::pairs(left, right)?, &inputs, None)?;
            let labels = [left.label().to_owned(), right.label().to_owned()];
            out.push(Agreement { origins: [of, origin], of: labels, report });
        }
        first.get_or_insert((origin, raw));
    }
    Ok(out)
}

fn compare(file: &ModelFile, ways: &[Way]) -> Result<Vec<Comparison>> {
    let mut out = Vec::new();
    for (left, right) in
        [(Origin::Section, Origin::Family), (Origin::Program, Origin::Family), (Origin::Program, Origin::Section)]
    {
        let find = |origin| ways.iter().find(|w| w.origin == origin);
        let (Some(a), Some(b)) = (find(left), find(right)) else { continue };
        let (Ok(x), Ok(y)) = (&a.graph, &b.graph) else { continue };
        let difference = diff(x, y).map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) })?;
        let place = |entry: &tallow_ir::diff::Entry| match (&a.module, entry.spots.first().and_then(|s| s.left.first()))
        {
            (Some(module), Some(node)) => shown(file, module, node.index()),
            _ => String::new(),
        };
        let places = difference.entries.iter().map(place).collect();
        out.push(Comparison { left, right, difference, places });
    }
    Ok(out)
}

/// Where a node stands in the program: `12:5`, and the line.
fn shown(file: &ModelFile, module: &Module, node: usize) -> String {
    let Some(span) = module.spans.get(MAIN).and_then(|spans| spans.get(&node)) else { return String::new() };
    let source = file.program().map_or("", |(_, source)| source);
    let lines = Lines::new(source);
    let place = lines.place(span.start);
    format!("line {}: {}", place.line, lines.line(place.line).trim())
}

/// Tensors that no graph reads, where every way gives one.
fn unread(file: &ModelFile, ways: &[Way]) -> Vec<String> {
    let mut read: HashSet<&str> = HashSet::new();
    for way in ways {
        let Ok(graph) = &way.graph else { return Vec::new() };
        read.extend(graph.weights().map(|(name, _)| name));
        for graph in way.once.iter().chain(way.module.iter().flat_map(|m| m.graphs.values())) {
            read.extend(graph.weights().map(|(name, _)| name));
        }
    }
    let scale = |name: &str| name.strip_suffix(".scale").is_some_and(|of| read.contains(of));
    file.tensors().iter().map(|t| t.name.clone()).filter(|n| !read.contains(n.as_str()) && !scale(n)).collect()
}
