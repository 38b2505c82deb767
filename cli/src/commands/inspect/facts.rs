//! What `tallow inspect` finds out about a file, before it is shown.

use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::Path;
use tallow::format::hash::Digests;
use tallow::format::{
    ChatSection, Config, Container, Encoding, FormatError, ModelFile, ProgramFormat, ReadOptions, SamplingConfig,
    TensorEntry,
};
use tallow::frontends::families;
use tallow::ir::{Effect, Graph, NodeKind, Op, POS, TensorType, Verified};
use toml_edit::{Item, TableLike};

/// Longer vocabularies are counted on request only: parsing takes more than 100 ms.
const CHEAP_VOCAB: usize = 8 << 20;

/// A file, and the model in it where there is one that can be read.
pub struct Facts {
    file: File,
    /// `format_version` in the frontmatter.
    pub format_version: Option<i64>,
    /// What is odd about the file.
    pub warnings: Vec<String>,
    /// The model.
    pub model: Option<ModelFacts>,
    /// Hashes, where asked for.
    pub digests: Option<Digests>,
}

/// What was opened.
enum File {
    Container(Box<Container>),
    Model(Box<ModelFile>),
}

/// What a model adds to its container.
pub struct ModelFacts {
    /// Number of values in all tensors, those that share their bytes counted once.
    pub parameters: u64,
    /// The whole config.
    pub config: Map<String, Value>,
    /// Tensors by encoding, in the order of first use.
    pub encodings: Vec<EncodingFacts>,
    /// How to pick the next token.
    pub sampling: Result<SamplingConfig, String>,
    /// How text becomes ids.
    pub tokenizer: Result<TokenizerFacts, String>,
    /// Scores of the eval section: a dotted name and the value; per-mille where it is an integer up to 1000.
    pub scores: Vec<(String, Value)>,
    /// Names of the benchmarks of the eval section.
    pub benchmarks: Vec<String>,
    /// The graph section.
    pub graph: PathFacts,
    /// The family.
    pub family: PathFacts,
    /// The type whose family builds the model.
    pub family_type: Option<&'static str>,
    /// Language and length of the program.
    pub program_text: Option<(ProgramFormat, usize)>,
    /// The program section.
    pub program: PathFacts,
    /// What the graph that would run takes and gives; else why there is none, on one line.
    pub signature: Result<Signature, String>,
}

/// Tensors of one encoding.
pub struct EncodingFacts {
    /// The encoding.
    pub encoding: Encoding,
    /// How many tensors have it.
    pub tensors: usize,
    /// How many values these hold.
    pub values: u64,
    /// How many bytes they take.
    pub bytes: u64,
}

impl EncodingFacts {
    /// Bits per value.
    pub fn bits(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.bytes as f64 * 8.0 / self.values as f64 }
    }
}

/// The tokenizer; ids and counts.
pub struct TokenizerFacts {
    /// Its type.
    pub kind: Option<&'static str>,
    /// Ids that begin, end and pad a sequence.
    pub bos: Option<u32>,
    /// Ids that end a sequence.
    pub end: Vec<u32>,
    /// The id that pads.
    pub pad: Option<u32>,
    /// Tokens, merges and verbatim tokens; `None` where counting takes long and was not asked for.
    pub counts: Option<Counts>,
}

/// The sizes of a vocabulary.
pub struct Counts {
    /// Ids with a text.
    pub tokens: usize,
    /// Pairs that are joined.
    pub merges: usize,
    /// Tokens matched verbatim.
    pub verbatim: usize,
}

/// One way to get a graph.
pub enum PathFacts {
    /// There is nothing to get it from.
    Absent,
    /// It works.
    Ready {
        /// Nodes of the graph.
        nodes: usize,
        /// What was noticed.
        notes: Vec<String>,
    },
    /// It does not.
    Fails {
        /// Why.
        why: String,
        /// Whether the model may be sound and this version has no way to run it.
        unsupported: bool,
    },
}

/// What a graph takes and gives, and how large it is.
pub struct Signature {
    /// Where the graph comes from: `graph` or `family`.
    pub path: &'static str,
    /// Whether it is the one that runs without `--path`.
    pub by_default: bool,
    /// Nodes of all kinds.
    pub nodes: usize,
    /// Those that are operations.
    pub operations: usize,
    /// Those that are weights.
    pub weights: usize,
    /// Operations that keep something in the session from call to call.
    pub caches: usize,
    /// Inputs.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Inputs of the graph that runs once before this one, where there is such a graph.
    pub first: Vec<Port>,
}

/// An input or an output.
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its type; dimensions that a call settles are symbols.
    pub ty: TensorType,
    /// Whether the session gives it by itself.
    pub injected: bool,
}

impl Facts {
    /// Facts about the file at `path`; beside them why a model in it cannot be used, if that is so. `full` counts also
    /// what takes long.
    pub fn of(path: &Path, options: &ReadOptions, full: bool) -> Result<(Self, Option<FormatError>), FormatError> {
        let container = Container::open_with(path, options)?;
        if !container.types().iter().any(|t| t == "model") {
            return Ok((Self::new(File::Container(Box::new(container))), None));
        }
        Ok(match ModelFile::open_with(path, options) {
            Ok(model) => (Self::of_model(model, full), None),
            Err(problem) => (Self::new(File::Container(Box::new(container))), Some(problem)),
        })
    }

    /// Facts about a model.
    pub fn of_model(file: ModelFile, full: bool) -> Self {
        let model = ModelFacts::of(&file, full);
        let mut facts = Self::new(File::Model(Box::new(file)));
        facts.model = Some(model);
        facts
    }

    fn new(file: File) -> Self {
        let (warnings, container) = match &file {
            File::Container(container) => (container.warnings(), container.as_ref()),
            File::Model(model) => (model.warnings(), model.container()),
        };
        let version = container.frontmatter().get("cyb").and_then(|c| c.get("format_version"));
        Facts {
            format_version: version.and_then(Item::as_integer),
            warnings: warnings.to_vec(),
            file,
            model: None,
            digests: None,
        }
    }

    /// The container.
    pub fn container(&self) -> &Container {
        match &self.file {
            File::Container(container) => container,
            File::Model(model) => model.container(),
        }
    }

    /// Every tensor, in order.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorEntry> {
        let model = match &self.file {
            File::Container(_) => None,
            File::Model(model) => Some(model),
        };
        model.into_iter().flat_map(|m| m.tensors().iter())
    }

    /// The card, in Markdown.
    pub fn card(&self) -> Option<&str> {
        self.container().text("card").ok().flatten()
    }

    /// The chat section of a model.
    pub fn chat(&self) -> Option<&ChatSection> {
        match &self.file {
            File::Container(_) => None,
            File::Model(model) => model.chat(),
        }
    }
}

impl ModelFacts {
    fn of(file: &ModelFile, full: bool) -> Self {
        let config = file.config();
        let (graph, by_graph) = match file.graph() {
            None => (PathFacts::Absent, None),
            Some(_) => path(file, tallow::Path::Graph),
        };
        let (family, by_family) = path(file, tallow::Path::Family);
        let (program, by_program) = match file.program() {
            None => (PathFacts::Absent, None),
            Some(_) => path(file, tallow::Path::Program),
        };
        // Without a graph section, and with a type that nobody knows, the program runs.
        let falls_back = matches!(graph, PathFacts::Absent) && families::canonical_type(config.model_type()).is_none();
        let signature = match (&graph, by_graph, by_family) {
            (_, Some(graph), _) => Ok(signature("graph", true, graph.graph())),
            (_, None, None) if falls_back && by_program.is_some() => match &by_program {
                Some(graph) => Ok(signature("program", true, graph.graph())),
                None => Err("the model has no graph".into()),
            },
            (PathFacts::Absent, None, Some(graph)) => Ok(signature("family", true, graph.graph())),
            // A graph section that does not work is not passed over when the model runs.
            (_, None, Some(graph)) => Ok(signature("family", false, graph.graph())),
            (PathFacts::Fails { why, .. }, None, None) => Err(first_line(why)),
            (PathFacts::Absent | PathFacts::Ready { .. }, None, None) => Err(match &family {
                PathFacts::Fails { why, .. } => first_line(why),
                PathFacts::Absent | PathFacts::Ready { .. } => "the model has no graph".into(),
            }),
        };
        let signature = signature.map(|mut signature| {
            let once = tallow::model::once_graph(file, tallow::Path::Auto).ok().flatten();
            signature.first = once.iter().filter(|_| signature.by_default).flat_map(|g| inputs(g.graph())).collect();
            signature
        });
        let (scores, benchmarks) = file.eval().map(eval).unwrap_or_default();
        ModelFacts {
            parameters: parameters(file),
            config: table(config.document().as_table()),
            encodings: encodings(file),
            sampling: config.sampling().map_err(|e| e.to_string()),
            tokenizer: tokenizer(file, full).map_err(|e| e.to_string()),
            scores,
            benchmarks,
            graph,
            family,
            family_type: families::canonical_type(config.model_type()),
            program_text: file.program().map(|(format, text)| (format, text.len())),
            program,
            signature,
        }
    }
}

/// Whether a path gives a graph that keeps the rules, and that graph.
fn path(file: &ModelFile, path: tallow::Path) -> (PathFacts, Option<Verified>) {
    match tallow::model::graph(file, path) {
        Ok((graph, notes)) => (PathFacts::Ready { nodes: graph.graph().len(), notes }, Some(graph)),
        Err(error) => {
            let text = error.to_string();
            let why = text.strip_prefix(&format!("{}: ", file.label())).unwrap_or(&text).to_owned();
            (PathFacts::Fails { why, unsupported: error.exit_code() == 4 }, None)
        }
    }
}

/// The first line of an error, which names what is wrong; the paths show all of it.
fn first_line(why: &str) -> String {
    let mut lines = why.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    if lines.next().is_some() { first + " …" } else { first }
}

fn port(graph: &Graph, (name, value): (&str, tallow::ir::Value)) -> Port {
    let injected = name == POS && graph.input_named(name) == Some(value);
    Port { name: name.to_owned(), ty: graph.ty(value).clone(), injected }
}

fn inputs(graph: &Graph) -> Vec<Port> {
    graph.inputs().map(|named| port(graph, named)).collect()
}

fn signature(path: &'static str, by_default: bool, graph: &Graph) -> Signature {
    let operations: Vec<&Op> = graph
        .nodes()
        .filter_map(|id| match &graph.node(id).kind {
            NodeKind::Op(op) => Some(op),
            NodeKind::Input(_) | NodeKind::Weight(_) => None,
        })
        .collect();
    Signature {
        path,
        by_default,
        nodes: graph.len(),
        operations: operations.len(),
        weights: graph.weights().count(),
        caches: operations.iter().filter(|op| op.info().effect == Effect::State).count(),
        inputs: inputs(graph),
        outputs: graph.outputs().map(|named| port(graph, named)).collect(),
        first: Vec::new(),
    }
}

fn parameters(file: &ModelFile) -> u64 {
    let mut seen = HashSet::new();
    let own = file.tensors().iter().filter(|t| seen.insert((t.offset, t.size)));
    own.fold(0, |sum, t| sum.saturating_add(t.values()))
}

fn encodings(file: &ModelFile) -> Vec<EncodingFacts> {
    let mut all: Vec<EncodingFacts> = Vec::new();
    for tensor in file.tensors().iter() {
        let at = all.iter().position(|e| e.encoding == tensor.encoding).unwrap_or_else(|| {
            all.push(EncodingFacts { encoding: tensor.encoding, tensors: 0, values: 0, bytes: 0 });
            all.len() - 1
        });
        let sum = &mut all[at];
        sum.tensors += 1;
        sum.values = sum.values.saturating_add(tensor.values());
        sum.bytes = sum.bytes.saturating_add(tensor.size);
    }
    all
}

fn tokenizer(file: &ModelFile, full: bool) -> Result<TokenizerFacts, FormatError> {
    let config = file.config();
    let cheap = file.container().entry("vocab").is_none_or(|e| e.range.len() <= CHEAP_VOCAB);
    let counts = match cheap || full {
        true => {
            let vocab = file.vocab()?;
            let tokens = vocab.tokens.iter().flatten().count();
            Some(Counts { tokens, merges: vocab.merges.len(), verbatim: vocab.added.len() })
        }
        false => None,
    };
    Ok(TokenizerFacts {
        kind: config.tokenizer()?.kind.map(|k| k.name()),
        bos: config.bos_id()?,
        end: config.end_ids()?,
        pad: config.pad_id()?,
        counts,
    })
}

/// Scores and names of benchmarks. What is no TOML has none: `tallow verify` says so.
fn eval(text: &str) -> (Vec<(String, Value)>, Vec<String>) {
    let Ok(eval) = Config::parse(text) else {
        return Default::default();
    };
    let mut root = table(eval.document().as_table());
    root.remove("benchmarks");
    let mut scores = Vec::new();
    flatten(&root, "", &mut scores);
    let names = tallow::format::eval::benchmarks(text).unwrap_or_default().into_iter().map(|b| b.name).collect();
    (scores, names)
}

/// The leaves of a table with dotted names.
pub fn flatten(map: &Map<String, Value>, prefix: &str, out: &mut Vec<(String, Value)>) {
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(inner, &name, out),
            value => out.push((name, value.clone())),
        }
    }
}

/// A table as JSON, in its own order. Nesting is limited by the parser that made it.
fn table(table: &dyn TableLike) -> Map<String, Value> {
    table.iter().map(|(key, item)| (key.to_owned(), json(item))).collect()
}

fn json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => json_value(value),
        Item::Table(inner) => Value::Object(table(inner)),
        Item::ArrayOfTables(tables) => tables.iter().map(|t| Value::Object(table(t))).collect(),
    }
}

fn json_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().clone().into(),
        toml_edit::Value::Integer(n) => (*n.value()).into(),
        // JSON has no infinity and no NaN.
        toml_edit::Value::Float(x) if !x.value().is_finite() => x.value().to_string().into(),
        toml_edit::Value::Float(x) => (*x.value()).into(),
        toml_edit::Value::Boolean(b) => (*b.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(values) => values.iter().map(json_value).collect(),
        toml_edit::Value::InlineTable(inner) => Value::Object(table(inner)),
    }
}
