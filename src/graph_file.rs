//! Graphs in files of their own: the text form (`.txt`), and a graph section's two spellings (`.hex` and
//! `.toml`).

use crate::{Error, Result};
use std::io::Read as _;
use std::path::Path;
use tallow_format::{GraphFormat, ModelFile};
use tallow_frontends::graph_section;
use tallow_import::GivenGraph;
use tallow_ir::Graph;
use tallow_ir::text::{Labels, snippet};
use tallow_ir::verify::{Verified, verify};

/// Longer files are refused unread.
const MOST_BYTES: u64 = 1 << 30;
/// At most so many weights that do not fit are listed.
const LISTED: usize = 20;

/// How a file holds a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text form, which has all types.
    Text,
    /// A graph section, whose weights are names.
    Section(GraphFormat),
}

impl Form {
    /// The form that goes with a file's ending; `None` for no graph.
    pub fn of(path: &Path) -> Option<Form> {
        match ending(path).as_deref() {
            Some("txt") => Some(Form::Text),
            Some("hex") => Some(Form::Section(GraphFormat::Hex)),
            Some("toml") => Some(Form::Section(GraphFormat::Toml)),
            Some(_) | None => None,
        }
    }
}

/// A graph that keeps the rules, and the text that it was read from.
#[derive(Clone, Debug)]
pub struct GraphFile {
    /// How the file holds it.
    pub form: Form,
    /// What the file holds.
    pub text: String,
    /// The graph.
    pub graph: Verified,
}

impl GraphFile {
    /// Reads a graph and checks it: against the tensors and the config of a model where one is given,
    /// else by itself. Without a model the text form tells the types of weights; a section that reads
    /// weights needs one.
    ///
    /// # Errors
    /// A file that is no graph; names that nothing binds; weights that the text form states otherwise
    /// than the model holds them; rules that are not kept. All of a kind together.
    pub fn read(path: &Path, model: Option<&ModelFile>) -> Result<GraphFile> {
        let form = Form::of(path).ok_or_else(|| Error::Usage(no_form(path)))?;
        let text = text(path)?;
        let graph = match form {
            Form::Text => {
                if text.lines().next().is_some_and(|l| l.ends_with("folded; --full prints every node")) {
                    return Err(wrong(
                        path,
                        "this is a folded dump, which is for people; `tallow dump --full` and `tallow compile` write a graph that reads back",
                    ));
                }
                let graph = tallow_ir::text::parse(&text).map_err(|e| wrong(path, e))?;
                if let Some(model) = model {
                    stated(path, &graph, model)?;
                }
                graph
            }
            Form::Section(format) => bound(path, format, &text, model)?,
        };
        let graph = verify(graph).map_err(|e| wrong(path, e))?;
        Ok(GraphFile { form, text, graph })
    }

    /// The graph as a section of `model`, checked as it will be read there. A section stays as it is; the
    /// text form becomes hex.
    ///
    /// # Errors
    /// A graph that a section cannot hold, or that is another one there: dimensions of inputs lose their
    /// symbols in a section.
    pub fn section(&self, path: &Path, model: &ModelFile) -> Result<(GraphFormat, String)> {
        let (format, text) = match self.form {
            Form::Section(format) => (format, self.text.clone()),
            Form::Text => {
                let text = graph_section::of_graph(GraphFormat::Hex, self.graph.graph()).map_err(|e| wrong(path, e))?;
                (GraphFormat::Hex, text)
            }
        };
        verify(bound(path, format, &text, Some(model))?).map_err(|e| wrong(path, e))?;
        Ok((format, text))
    }
}

/// The graph in a file as a section, for import: not yet bound to any tensors: what makes a model of tensors that
/// no family knows. A section stays as it is; the text form becomes hex.
///
/// # Errors
/// A file that is no graph, and a graph that a section cannot hold.
pub fn given(path: &Path, model_type: &str) -> Result<GivenGraph> {
    let (format, text, weights) = match Form::of(path).ok_or_else(|| Error::Usage(no_form(path)))? {
        Form::Section(format) => (format, text(path)?, Vec::new()),
        Form::Text => {
            let file = GraphFile::read(path, None)?;
            let graph = file.graph.graph();
            let text = graph_section::of_graph(GraphFormat::Hex, graph).map_err(|e| wrong(path, e))?;
            let weights = graph.weights().map(|(name, v)| (name.to_owned(), graph.ty(v).clone())).collect();
            (GraphFormat::Hex, text, weights)
        }
    };
    Ok(GivenGraph { format, text, label: path.display().to_string(), weights, model_type: model_type.to_owned() })
}

/// The graph of a section with its names bound to a model's tensors, or to none.
fn bound(path: &Path, format: GraphFormat, text: &str, model: Option<&ModelFile>) -> Result<Graph> {
    let refuse = |e: graph_section::GraphSectionError| match e.is_unsupported() {
        true => Error::Unsupported(format!("{}: {e}", path.display())),
        false => wrong(path, e),
    };
    if let Some(model) = model {
        return graph_section::from_section(format, text, model.config(), model.tensors()).map_err(refuse);
    }
    let raw = graph_section::parse(format, text).map_err(refuse)?;
    raw.to_graph(&|_| None, false).map_err(|e| {
        let cure = "Tensors of a model are known only beside it: give the model too (`--model MODEL`).";
        wrong(path, format!("{e}\n{cure}"))
    })
}

/// An error for weights whose types in the text form are not those of the model's tensors.
fn stated(path: &Path, graph: &Graph, model: &ModelFile) -> Result<()> {
    use tallow_frontends::TensorShapes as _;
    let mut faults = Vec::new();
    let labels = std::cell::OnceCell::new();
    for (name, value) in graph.weights() {
        let tensors = model.tensors();
        let found = tensors.shape(name).zip(tensors.dtype(name));
        let ty = graph.ty(value);
        // A section holds no types: any encoding of the stated shape computes the same.
        let fits = |(shape, dtype): &(Vec<u64>, tallow_ir::DType)| {
            let sizes = ty.shape.dims().iter().map(|d| d.as_const().and_then(|n| u64::try_from(n).ok()));
            sizes.eq(shape.iter().map(|&n| Some(n))) && dtype.computes_as() == ty.dtype.computes_as()
        };
        if found.as_ref().is_some_and(fits) {
            continue;
        }
        let found = found.map(|(shape, dtype)| {
            let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
            format!("{dtype}[{}]", shape.join(", "))
        });
        let holds = found.map_or("has no such tensor".into(), |found| format!("holds {found}"));
        let line = labels.get_or_init(|| Labels::new(graph)).line(graph, value.node);
        let mark = line.types.first().cloned().unwrap_or(0..line.text.len());
        let shown = snippet(&line.text, mark, "    ");
        faults.push(format!(
            "weight `{}` is stated as {ty}, and the model {holds}; correct the text\n{shown}",
            name.escape_debug()
        ));
    }
    if faults.is_empty() {
        return Ok(());
    }
    let more = faults.len().saturating_sub(LISTED);
    faults.truncate(LISTED);
    if more > 0 {
        faults.push(format!("and {more} more weights"));
    }
    Err(wrong(path, faults.join("\n")))
}

fn ending(path: &Path) -> Option<String> {
    path.extension().map(|e| e.to_string_lossy().to_lowercase())
}

/// Why a file with this ending is no model, where its ending says so.
pub(crate) fn no_model(path: &Path) -> Option<String> {
    let shown = path.display();
    let wanted = "a model is wanted here: a .model file, a GGUF file or a Hugging Face folder";
    match ending(path)?.as_str() {
        "txt" | "hex" | "toml" => Some(format!("{shown}: is a graph by its ending, and {wanted}")),
        "rs" | "tri" => Some(format!("{shown}: is a program by its ending, and {wanted}")),
        "json" | "dot" | "gv" | "mmd" | "html" => Some(no_form(path)),
        _ => None,
    }
}

/// Why a file's ending is none of a graph that can be read.
fn no_form(path: &Path) -> String {
    let path_shown = path.display();
    match ending(path).as_deref() {
        Some("json" | "dot" | "gv" | "mmd" | "html") => format!(
            "{path_shown}: this form of a graph is for other programs and cannot be read back; use a .txt, .hex or .toml file, which `tallow compile -o FILE.txt` writes"
        ),
        Some(_) | None => format!("{path_shown}: a graph is read from a .txt, .hex or .toml file"),
    }
}

fn text(path: &Path) -> Result<String> {
    let fail = |source| Error::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(fail)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(path, format!("longer than {MOST_BYTES} bytes, the most that a graph may have")));
    }
    String::from_utf8(bytes).map_err(|e| {
        wrong(path, format!("byte {} is not UTF-8, and a graph file is text", e.utf8_error().valid_up_to()))
    })
}

fn wrong(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Graph { file: path.display().to_string(), source: source.into() }
}
