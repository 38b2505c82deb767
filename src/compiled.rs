//! The program section of a model, compiled.

use crate::program::ProgramHost;
use crate::{Error, Message, Model, Result, Tensor};
use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tallow_executor::sampling::SamplingParams;
use tallow_executor::tokenizer::EncodeOptions;
use tallow_format::{ModelFile, ProgramFormat, TensorIndex};
use tallow_frontends::program::builtins::tri::ChatPiece;
use tallow_frontends::program::module::{MAIN, Sampling, Start};
use tallow_frontends::program::value::Value;
use tallow_frontends::program::{self, Diagnostic, Diagnostics, Language, Module, Options};
use tallow_import::GivenProgram;
use tallow_ir::Graph;
use tallow_ir::ops::SampleMethod;
use tallow_ir::verify::{Verified, verify};

/// A compiled program section, ready to run.
pub struct Compiled {
    /// What it compiled to.
    pub module: Arc<Module>,
    /// Its code on text and numbers.
    pub(crate) host: Arc<ProgramHost>,
}

impl Compiled {
    /// The ids of a conversation as the program's chat function writes it, up to where the answer begins.
    pub(crate) fn encode_chat(&self, model: &Model, messages: &[Message]) -> Result<Vec<u32>> {
        let file = model.file();
        let pairs: Vec<(&str, &str)> = messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
        let pieces = match self.module.chat_prompt(&pairs, file.config()) {
            None => Vec::new(),
            Some(Ok(pieces)) => pieces,
            Some(Err(d)) => return Err(self.failed(file, d)),
        };
        let tokenizer = model.tokenizer()?;
        let mut ids = Vec::new();
        let mut text = String::new();
        let plain = EncodeOptions { add_special: false, parse_special: false };
        let fault = |source| Error::Tokenizer { file: file.label(), source };
        for piece in pieces {
            match piece {
                ChatPiece::Text(part) => text.push_str(&part),
                ChatPiece::Token(id) => {
                    ids.extend(tokenizer.encode(&std::mem::take(&mut text), plain).map_err(fault)?);
                    ids.push(id);
                }
            }
        }
        ids.extend(tokenizer.encode(&text, plain).map_err(fault)?);
        Ok(ids)
    }

    /// An error of the program while it runs, shown on its source.
    pub(crate) fn failed(&self, file: &ModelFile, diagnostic: Diagnostic) -> Error {
        let source = file.program().map_or("", |(_, source)| source);
        let name = format!("program of {}", file.label());
        Error::Program(Box::new(Diagnostics { name, source: source.into(), list: vec![diagnostic] }))
    }

    pub(crate) fn new(file: &Arc<ModelFile>, module: Module) -> Self {
        let module = Arc::new(module);
        let source = file.program().map_or("", |(_, source)| source);
        let host = host(Some(file), module.clone(), format!("program of {}", file.label()), source);
        Compiled { module, host }
    }
}

/// The code of a program on text and numbers, with the vocabulary of a model where there is one.
pub(crate) fn host(file: Option<&Arc<ModelFile>>, module: Arc<Module>, name: String, source: &str) -> Arc<ProgramHost> {
    let host = ProgramHost::new(module, name, source);
    Arc::new(match file {
        Some(file) => {
            let words = Words { file: file.clone(), ids: OnceLock::new() };
            host.with_vocabulary(move |text| words.id(text))
        }
        None => host,
    })
}

/// The ids of tokens by their exact texts, read on first use.
struct Words {
    file: Arc<ModelFile>,
    ids: OnceLock<HashMap<String, u32>>,
}

impl Words {
    fn id(&self, text: &str) -> Option<u32> {
        let ids = self.ids.get_or_init(|| {
            let Ok(vocab) = self.file.vocab() else { return HashMap::new() };
            (0..vocab.len() as u32).filter_map(|id| Some((vocab.token(id)?.to_owned(), id))).collect()
        });
        ids.get(text).copied()
    }
}

/// What a program gives that generates no text.
pub enum Answer {
    /// Tensors by name.
    Tensors(Vec<(String, Tensor)>),
    /// A value that the program's own code made from them.
    Value(serde_json::Value),
}

/// A value of a program as JSON: lists and tuples as arrays, structs and maps as objects. NaN and infinities are null.
///
/// # Errors
/// A value that has no such form, or that is nested too deeply.
pub(crate) fn json(value: &Value, depth: usize) -> std::result::Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    if depth > 128 {
        return Err("gave a value that is nested more than 128 deep".into());
    }
    let list = |items: &[Value]| items.iter().map(|v| json(v, depth + 1)).collect::<std::result::Result<Vec<_>, _>>();
    Ok(match value {
        Value::Unit | Value::Option(None) => Json::Null,
        Value::Bool(b) => Json::from(*b),
        Value::Int(n) => i64::try_from(n.value).map_or_else(|_| Json::from(n.value.to_string()), Json::from),
        Value::Float(x) => Json::from(*x),
        Value::Char(c) => Json::from(c.to_string()),
        Value::Str(text) => Json::from(&**text),
        Value::List(items) | Value::Tuple(items) => Json::Array(list(items)?),
        Value::Option(Some(items)) => json(&items[0], depth + 1)?,
        Value::Ref(place) => json(&place.load(), depth + 1)?,
        Value::Struct(of) => {
            let mut map = serde_json::Map::new();
            if let Some(variant) = &of.variant {
                map.insert("variant".into(), Json::from(&**variant));
            }
            for (name, field) in &of.fields {
                map.insert(name.to_string(), json(field, depth + 1)?);
            }
            Json::Object(map)
        }
        Value::Map(entries) => {
            let mut pairs = Vec::with_capacity(entries.len());
            for (key, item) in entries.values() {
                pairs.push(match item {
                    Value::Unit => json(key, depth + 1)?,
                    item => Json::Array(vec![json(key, depth + 1)?, json(item, depth + 1)?]),
                });
            }
            Json::Array(pairs)
        }
        other => return Err(format!("gave {}, which is no answer", other.kind())),
    })
}

/// Compiles the program section of a model.
///
/// # Errors
/// A model without one, or in a language that is not compiled; everything that is wrong with it.
pub fn module(file: &ModelFile) -> Result<Module> {
    let Some((format, source)) = file.program() else {
        return Err(Error::Usage(format!(
            "{}: has no program section; use --path family or --path graph",
            file.label()
        )));
    };
    let language = match format {
        ProgramFormat::Rs => Language::Rs,
        ProgramFormat::Tri => Language::Tri,
    };
    let name = format!("program of {}", file.label());
    compile(source, language, &name, file.config(), Some(file.tensors()))
}

/// Compiles a program for a config and a tensor index.
///
/// # Errors
/// Everything that is wrong with it.
pub fn compile(
    source: &str,
    language: Language,
    name: &str,
    config: &tallow_format::Config,
    tensors: Option<&tallow_format::TensorIndex>,
) -> Result<Module> {
    let tensors = tensors.map(|t| t as &dyn tallow_frontends::TensorShapes);
    program::compile(source, language, name, config, tensors, Options::default())
        .map_err(|e| Error::Program(Box::new(e)))
}

/// The graph of a module that runs for each token, or the only one, verified.
pub(crate) fn main_graph(file: &ModelFile, module: &Module) -> Result<Verified> {
    match module.graphs.get(MAIN).filter(|graph| graph.outputs().next().is_some()) {
        Some(graph) => verified(file, graph.clone()),
        None => Err(Error::Unsupported(format!(
            "{}: its program computes no tensors, which is what a model runs",
            file.label()
        ))),
    }
}

fn verified(file: &ModelFile, graph: Graph) -> Result<Verified> {
    verify(graph).map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) })
}

/// Sampling as the program says it.
pub(crate) fn sampling(how: &Sampling, seed: u64) -> SamplingParams {
    let params = SamplingParams { temperature: how.temperature as f32, seed, ..SamplingParams::default() };
    match how.method {
        SampleMethod::Greedy => SamplingParams { temperature: 0.0, ..params },
        SampleMethod::Temperature => params,
        SampleMethod::TopK => SamplingParams { top_k: how.k as usize, ..params },
        SampleMethod::TopP => SamplingParams { top_p: how.p as f32, ..params },
        SampleMethod::MinP => SamplingParams { min_p: how.p as f32, ..params },
    }
}

/// The most bytes that a program, a config or a tensor index in a file of its own may have.
const MOST_BYTES: u64 = 64 << 20;

/// A program in a file of its own, with what it is compiled for.
#[derive(Clone, Copy, Debug)]
pub struct ProgramFile<'a> {
    /// The program, `.rs` or `.tri`.
    pub program: &'a Path,
    /// The config, `.toml`.
    pub config: &'a Path,
    /// The tensor index, `.toml`; without it shapes follow from the calls alone.
    pub tensors: Option<&'a Path>,
}

impl ProgramFile<'_> {
    /// The language of a file's ending; `None` for no program.
    pub fn language(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "rs" => Some(Language::Rs),
            "tri" => Some(Language::Tri),
            _ => None,
        }
    }

    /// Compiles it.
    ///
    /// # Errors
    /// Files that cannot be read, and everything that is wrong with the program.
    pub fn compile(&self) -> Result<Module> {
        let language = Self::language(self.program)
            .ok_or_else(|| Error::Usage(format!("{}: a program ends in .rs or .tri", self.program.display())))?;
        let source = text(self.program)?;
        let config = tallow_format::Config::parse(&text(self.config)?).map_err(|e| in_file(self.config, e))?;
        let tensors = match self.tensors {
            Some(path) => Some(TensorIndex::parse(&text(path)?, u64::MAX).map_err(|e| in_file(path, e))?),
            None => None,
        };
        compile(&source, language, &self.program.display().to_string(), &config, tensors.as_ref())
    }
}

/// A program and a config in files, for import over tensors.
///
/// # Errors
/// Files that cannot be read, or have another ending.
pub fn given(program: &Path, config: &Path) -> Result<GivenProgram> {
    let format = match ProgramFile::language(program) {
        Some(Language::Rs) => ProgramFormat::Rs,
        Some(Language::Tri) => ProgramFormat::Tri,
        None => return Err(Error::Usage(format!("{}: a program ends in .rs or .tri", program.display()))),
    };
    Ok(GivenProgram { format, source: text(program)?, label: program.display().to_string(), config: text(config)? })
}

/// Compiles a program in a file for the config and the tensors of a model.
///
/// # Errors
/// A file that cannot be read, and everything that is wrong with the program.
pub fn compile_for(program: &Path, model: &ModelFile) -> Result<Module> {
    let language = ProgramFile::language(program)
        .ok_or_else(|| Error::Usage(format!("{}: a program ends in .rs or .tri", program.display())))?;
    let name = program.display().to_string();
    compile(&text(program)?, language, &name, model.config(), Some(model.tensors()))
}

fn in_file(path: &Path, source: tallow_format::FormatError) -> Error {
    Error::Graph { file: path.display().to_string(), source: Box::new(source) }
}

pub(crate) fn text(path: &Path) -> Result<String> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::Usage(format!("{}: is longer than {MOST_BYTES} bytes", path.display())));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::Graph {
            file: path.display().to_string(),
            source: format!("byte {at} is not UTF-8; save the file as UTF-8").into(),
        }
    })
}

/// What a module is, in one line for people: graphs, and how text is generated.
pub fn describe(module: &Module) -> String {
    let graphs: Vec<String> = module.graphs.iter().map(|(name, g)| format!("{name} ({} nodes)", g.len())).collect();
    let mut line = format!("graphs: {}", graphs.join(", "));
    if let Some(driver) = &module.driver {
        let start = match &driver.start {
            Start::Prompt => "the prompt".to_owned(),
            Start::Ids(ids) => format!("{ids:?}"),
        };
        line.push_str(&format!("; generates text from {start}, {}", picks(&driver.sampling)));
        if !driver.stop.is_empty() {
            line.push_str(&format!(", ends at {:?}", driver.stop));
        }
        if let Some(limit) = driver.limit {
            line.push_str(&format!(", at most {limit} tokens"));
        }
        if let Some(total) = driver.total {
            line.push_str(&format!(", at most {total} tokens with the prompt"));
        }
    }
    if module.chat.is_some() {
        line.push_str("; writes conversations itself");
    }
    line
}

fn picks(how: &Sampling) -> String {
    let at = |x: f64| (x * 1e6).round() / 1e6;
    match how.method {
        SampleMethod::Greedy => "greedy".to_owned(),
        SampleMethod::Temperature => format!("temperature {}", at(how.temperature)),
        SampleMethod::TopK => format!("top-k {} at temperature {}", how.k, at(how.temperature)),
        SampleMethod::TopP => format!("top-p {} at temperature {}", at(how.p), at(how.temperature)),
        SampleMethod::MinP => format!("min-p {} at temperature {}", at(how.p), at(how.temperature)),
    }
}
