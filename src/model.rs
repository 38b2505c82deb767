//! A model: an opened file with its program, tokenizer and chat template.

use crate::compiled::{self, Compiled};
use crate::tokens::{self, Reading};
use crate::{Error, Result, Session, library};
use std::sync::{Arc, OnceLock};
use tallow_compiler::{Plan, passes};
use tallow_executor::chat::{ChatTemplate, SpecialTokens};
use tallow_executor::sampling::SamplingParams;
use tallow_executor::tokenizer::{EncodeOptions, Tokenizer, TokenizerError};
use tallow_executor::{Engine, HostFunctions, Program, ProgramOptions, Tensor, WeightSource};
use tallow_format::{ModelFile, ReadOptions};
use tallow_frontends::families;
use tallow_frontends::families::seq2seq::Speech;
use tallow_frontends::families::vision_language::Sight;
use tallow_frontends::program::build::InputKind;
use tallow_frontends::program::module::{ENCODER, Start};
use tallow_frontends::program::{Driver, Module, Outcome};
use tallow_ir::Graph;
use tallow_ir::verify::{Verified, verify};

static STORYTELLER: &[u8] = include_bytes!("../models/storyteller.model");

/// The input of token ids.
const INPUT_IDS: &str = "input_ids";

/// Where the graph comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The graph section where there is one, else the family, else the program section.
    #[default]
    Auto,
    /// The graph section.
    Graph,
    /// The family that the config names.
    Family,
    /// The program section.
    Program,
}

/// How to open a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions {
    /// Where the graph comes from.
    pub path: Path,
    /// Limits on reading the file; of no effect on the embedded model, nor on a file already opened.
    pub read: ReadOptions,
    /// Leaves a graph that was written for one token a call as it is, instead of widening it to whole
    /// prompts.
    pub token_by_token: bool,
    /// Engine, threads, cache type, context and chunk. Without a context, that of the config. Packed matrices are kept in
    /// [`library::packed_folder`], unless [`Model::set_packed_folder`] names another place.
    pub program: ProgramOptions,
}

/// An opened model; cheap to clone, shared by its sessions.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<ModelFile>,
    graph: Arc<Verified>,
    program: Arc<Program>,
    once: Option<Arc<Program>>,
    driver: Option<Driver>,
    speech: Option<Speech>,
    sight: Option<Sight>,
    compiled: Option<Compiled>,
    notes: Vec<String>,
    reading: Reading,
    tokenizer: OnceLock<Arc<Tokenizer>>,
    chat: OnceLock<Option<Arc<ChatTemplate>>>,
    end_ids: Vec<u32>,
}

impl Model {
    /// Opens a `.model` file with the default options.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, &ModelOptions::default())
    }

    /// Opens a `.model` file.
    pub fn open_with(path: impl AsRef<std::path::Path>, options: &ModelOptions) -> Result<Self> {
        Self::from_file(ModelFile::open_with(path.as_ref(), &options.read)?, options)
    }

    /// The embedded model: a small decoder that tells stories about animals.
    pub fn storyteller() -> Result<Self> {
        Self::storyteller_with(&ModelOptions::default())
    }

    /// The embedded model with options.
    pub fn storyteller_with(options: &ModelOptions) -> Result<Self> {
        Self::from_file(storyteller_file()?, options)
    }

    /// A model from an opened file.
    pub fn from_file(file: ModelFile, options: &ModelOptions) -> Result<Self> {
        let file = Arc::new(file);
        let reading = Reading::begin(&file);
        let Found { mut graph, mut notes, module, once, driver, speech, sight } = find(&file, options.path)?;
        if passes::takes_one_token(graph.graph()) && !options.token_by_token {
            match passes::whole_prompt(graph.graph()) {
                Ok(wide) => {
                    graph = verify(wide).map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) })?;
                }
                Err(missed) => notes.push(format!(
                    "the graph takes one token a call, and prompts run so: it does not widen to whole prompts {missed}"
                )),
            }
        }
        let mut program = options.program;
        program.packed_cache = library::packed_cache(program.packed_cache)?;
        // Many texts in one call may have more tokens together than one text may have positions.
        if program.context.is_none() && graph.graph().input_named("starts").is_none() {
            program.context = context(&file)?;
        }
        let compiled = module.map(|module| Compiled::new(&file, module));
        let load = |graph: &Verified| -> Result<Program> {
            let loaded = Program::new(graph, file.clone(), program)?;
            Ok(match &compiled {
                Some(compiled) => loaded.with_host(compiled.host.clone()),
                None => loaded,
            })
        };
        let once = once.as_ref().map(load).transpose()?.map(Arc::new);
        let program = load(&graph)?;
        let end_ids = reading.end_ids(&file)?;
        let model = Model {
            inner: Arc::new(Inner {
                file,
                graph: Arc::new(graph),
                program: Arc::new(program),
                once,
                driver,
                speech,
                sight,
                compiled,
                notes,
                reading,
                tokenizer: OnceLock::new(),
                chat: OnceLock::new(),
                end_ids,
            }),
        };
        if let Some(folder) = library::packed_folder() {
            model.set_packed_folder(&folder);
        }
        Ok(model)
    }

    /// Keeps packed matrices for other runs in this folder instead of [`library::packed_folder`], if the options of the program
    /// want them kept. Of no effect once the model has run.
    pub fn set_packed_folder(&self, folder: &std::path::Path) {
        for program in [&self.inner.program].into_iter().chain(&self.inner.once) {
            program.packed().set_folder(folder.to_owned());
        }
    }

    /// The model with the functions that its graph may call by `HostCall`.
    ///
    /// # Errors
    /// The model has been cloned, or has a session already.
    pub fn with_host(self, host: Arc<dyn HostFunctions>) -> Result<Self> {
        let shared =
            || Error::Usage("functions of the host are registered before a model is cloned or has a session".into());
        let mut inner = Arc::try_unwrap(self.inner).map_err(|_| shared())?;
        let program = Arc::try_unwrap(inner.program).map_err(|_| shared())?;
        inner.program = Arc::new(program.with_host(host));
        Ok(Model { inner: Arc::new(inner) })
    }

    /// A new, empty session.
    pub fn session(&self) -> Result<Session> {
        Session::new(self.clone())
    }

    /// The file.
    pub fn file(&self) -> &ModelFile {
        &self.inner.file
    }

    /// The loaded program.
    pub fn program(&self) -> &Arc<Program> {
        &self.inner.program
    }

    /// The plan of the graph that runs once before a text, where there is one.
    pub fn once(&self) -> Option<&Plan> {
        self.inner.once.as_ref().map(|program| program.plan())
    }

    /// Whether an input of this name belongs to the graph that runs once, in a model that generates no text from it.
    pub fn takes_once(&self, input: &str) -> bool {
        self.driver().is_none() && self.once().is_some_and(|plan| plan.inputs.iter().any(|i| i.name == input))
    }

    /// The program of that graph.
    pub(crate) fn once_program(&self) -> Option<&Arc<Program>> {
        self.inner.once.as_ref()
    }

    /// How text is generated, where it does not simply go on from a prompt.
    pub fn driver(&self) -> Option<&Driver> {
        self.inner.driver.as_ref()
    }

    /// How sound becomes text, where the model hears.
    pub fn speech(&self) -> Option<&Speech> {
        self.inner.speech.as_ref()
    }

    /// How pictures become part of a text, where the model sees.
    pub fn sight(&self) -> Option<&Sight> {
        self.inner.sight.as_ref()
    }

    /// Whether a text is not continued but read first, by the graph that runs once, as for a translation.
    pub fn reads_source(&self) -> bool {
        let starts = matches!(self.driver(), Some(Driver { start: Start::Ids(_), .. }));
        starts && self.once().is_some_and(|plan| plan.inputs.iter().all(|i| i.name == INPUT_IDS))
    }

    /// The graph that the program was made of.
    pub fn graph(&self) -> &Arc<Verified> {
        &self.inner.graph
    }

    /// The file, for those that hold on to it.
    pub(crate) fn shared_file(&self) -> &Arc<ModelFile> {
        &self.inner.file
    }

    /// The tensors, as programs over other graphs take them.
    pub fn weights(&self) -> Arc<dyn WeightSource> {
        self.inner.file.clone()
    }

    /// The compiled program section, where that is what runs.
    pub fn compiled(&self) -> Option<&Compiled> {
        self.inner.compiled.as_ref()
    }

    /// Warnings about the file and how it was understood. A missing program section is none of them,
    /// since something else gave the graph.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let file = self.inner.file.warnings().iter().filter(|w| *w != tallow_format::model::NO_PROGRAM);
        file.chain(&self.inner.notes).map(String::as_str)
    }

    /// The inputs that a caller gives, with their types: `image: f32[S, 3, 8, 8], scale: f32[]`.
    pub fn signature(&self) -> String {
        self.inner.program.plan().signature()
    }

    /// Whether the graph continues text: it reads `input_ids` and gives `logits`.
    ///
    /// # Errors
    /// A graph that does not, with what it takes instead.
    pub fn takes_text(&self) -> Result<()> {
        if let Some(task) = self.text_task() {
            return Err(Error::Usage(format!(
                "{}: gives {}, so it continues no text; give it whole texts (`tallow run MODEL --text TEXT`)",
                self.inner.file.label(),
                task.name()
            )));
        }
        let plan = self.inner.program.plan();
        let lacks = match plan.inputs.iter().any(|i| i.name == INPUT_IDS) {
            false => "takes no `input_ids`",
            true if !plan.outputs.iter().any(|(name, _)| name == "logits") => "gives no `logits`",
            true => return Ok(()),
        };
        let picture = if self.picture_input().is_some() { ", or `--image FILE` for a picture" } else { "" };
        Err(Error::Usage(format!(
            "{}: its graph {lacks}, so it continues no text; run it on inputs (`tallow run MODEL --input NAME=VALUE`{picture}): {}",
            self.inner.file.label(),
            self.signature()
        )))
    }

    /// Whether this model runs in the reference engine.
    pub fn is_reference(&self) -> bool {
        self.inner.program.options().engine == Engine::Reference
    }

    /// Ids that end a sequence.
    pub fn end_ids(&self) -> &[u32] {
        &self.inner.end_ids
    }

    /// The tokenizer. A large vocabulary is read beside the opening of the model, others on first use.
    pub fn tokenizer(&self) -> Result<Arc<Tokenizer>> {
        if let Some(tokenizer) = self.inner.tokenizer.get() {
            return Ok(tokenizer.clone());
        }
        let tokenizer = self.inner.reading.tokenizer(&self.inner.file, &self.inner.end_ids)?;
        Ok(self.inner.tokenizer.get_or_init(|| tokenizer).clone())
    }

    /// The same; `None` for a model without one.
    pub(crate) fn own_tokenizer(&self) -> Result<Option<Arc<Tokenizer>>> {
        match self.tokenizer() {
            Ok(tokenizer) => Ok(Some(tokenizer)),
            Err(Error::Tokenizer { source: TokenizerError::NoVocabulary, .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The chat template, if the model has one.
    pub fn chat(&self) -> Result<Option<Arc<ChatTemplate>>> {
        if let Some(chat) = self.inner.chat.get() {
            return Ok(chat.clone());
        }
        let file = &self.inner.file;
        let chat = match file.chat() {
            Some(section) => {
                let tokenizer = self.tokenizer()?;
                let template = ChatTemplate::from_section(section, &SpecialTokens::of(&tokenizer))
                    .map_err(|source| Error::Chat { file: file.label(), source })?;
                Some(Arc::new(template))
            }
            None => None,
        };
        Ok(self.inner.chat.get_or_init(|| chat).clone())
    }

    /// The inputs that a text gives a program which generates none: ids where it encodes the text, and the text's bytes
    /// where its own code reads them.
    ///
    /// # Errors
    /// A program that takes no text, or other inputs beside it.
    pub fn text_inputs(&self, text: &str) -> Result<Vec<(String, Tensor)>> {
        let label = self.inner.file.label();
        let Some(compiled) = self.compiled() else {
            return Err(Error::Usage(format!("{label}: has no program that takes text")));
        };
        let inputs = &compiled.module.inputs;
        let texts: Vec<&str> = inputs.iter().filter(|i| i.kind == InputKind::Text).map(|i| i.name.as_str()).collect();
        if texts.len() != 1 {
            let signature = self.signature();
            return Err(Error::Usage(format!(
                "{label}: its program takes no text but inputs: {signature} (`tallow run MODEL --input NAME=VALUE`)"
            )));
        }
        let mut given = Vec::new();
        for input in &self.inner.program.plan().inputs {
            match input.name.as_str() {
                INPUT_IDS => given.push(self.ids_input(text)?),
                name if name == texts[0] => given.push((name.to_owned(), bytes(text)?)),
                _ => {}
            }
        }
        // Code that makes the answer may read the text, though the graph does not.
        let by_code = matches!(compiled.module.outcome, Outcome::Value(_));
        if by_code && !given.iter().any(|(name, _)| name == texts[0]) {
            given.push((texts[0].to_owned(), bytes(text)?));
        }
        Ok(given)
    }

    /// The ids of a text as an input of a graph.
    pub(crate) fn ids_input(&self, text: &str) -> Result<(String, Tensor)> {
        self.source_input(text, None)
    }

    /// The ids of a text in the language of a token, as an input of a graph.
    pub(crate) fn source_input(&self, text: &str, language: Option<u32>) -> Result<(String, Tensor)> {
        let fault = |source| Error::Tokenizer { file: self.inner.file.label(), source };
        let options = EncodeOptions { add_special: true, parse_special: true };
        let tokenizer = self.tokenizer()?;
        let ids = match language {
            Some(language) => tokenizer.encode_from(text, language),
            None => tokenizer.encode(text, options),
        };
        let ids = ids.map_err(fault)?;
        tokens::check_rows(self, &tokenizer, &ids)?;
        let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        let count = ids.len();
        Ok((INPUT_IDS.to_owned(), tensor(ids, count)?))
    }

    /// Whether conversations have a form: a chat template, or a chat function of the program that runs.
    pub fn has_chat(&self) -> Result<bool> {
        Ok(self.chat()?.is_some() || self.compiled().is_some_and(|c| c.module.chat.is_some()))
    }

    /// The sampling that the program or else the config asks for, with a seed.
    pub fn sampling(&self, seed: u64) -> Result<SamplingParams> {
        if let (Some(_), Some(driver)) = (self.compiled(), self.driver()) {
            return Ok(compiled::sampling(&driver.sampling, seed));
        }
        Ok(SamplingParams::from_config(&self.inner.file.config().sampling()?, seed))
    }
}

/// The embedded model's file.
pub fn storyteller_file() -> Result<ModelFile> {
    Ok(ModelFile::from_static(STORYTELLER, "storyteller.model (embedded)")?)
}

/// The verified graph of a file by the wanted path, with notes; of a program the part that runs for each token.
pub fn graph(file: &ModelFile, path: Path) -> Result<(Verified, Vec<String>)> {
    let found = find(file, path)?;
    Ok((found.graph, found.notes))
}

/// The graph that runs once before the other, where the wanted path of a file has one.
pub fn once_graph(file: &ModelFile, path: Path) -> Result<Option<Verified>> {
    Ok(find(file, path)?.once)
}

/// What a file runs.
pub(crate) struct Found {
    pub graph: Verified,
    pub notes: Vec<String>,
    /// The module whose graph it is, where it comes from the program section.
    pub module: Option<Module>,
    /// The graph that runs once before a text.
    pub once: Option<Verified>,
    /// How text is generated.
    pub driver: Option<Driver>,
    /// How sound becomes text.
    pub speech: Option<Speech>,
    /// How pictures become part of a text.
    pub sight: Option<Sight>,
}

/// Finds what a file runs by the wanted path.
pub(crate) fn find(file: &ModelFile, path: Path) -> Result<Found> {
    let verified = |graph: Graph| verify(graph).map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) });
    let section = match path {
        Path::Auto | Path::Graph => file.graph(),
        Path::Family | Path::Program => None,
    };
    let by_program = match path {
        Path::Program => true,
        Path::Auto => {
            section.is_none()
                && families::canonical_type(file.config().model_type()).is_none()
                && file.program().is_some()
        }
        Path::Graph | Path::Family => false,
    };
    if by_program {
        let module = compiled::module(file).map_err(|error| match (path, error) {
            (Path::Auto, Error::Program(program)) => match families::build(file.config(), file.tensors()) {
                Err(family) => Error::Nothing { file: file.label(), family: Box::new(family), program },
                Ok(_) => Error::Program(program),
            },
            (_, error) => error,
        })?;
        let graph = compiled::main_graph(file, &module)?;
        let once = module.graphs.get(ENCODER).cloned().map(verified).transpose()?;
        let (notes, driver) = (module.notes.clone(), module.driver.clone());
        return Ok(Found { graph, notes, module: Some(module), once, driver, speech: None, sight: None });
    }
    match (path, section) {
        (Path::Graph, None) => Err(Error::Usage(format!(
            "{}: has no graph section; use --path family, or add one with `tallow edit --graph`",
            file.label()
        ))),
        (_, Some((format, text))) => {
            let graph = tallow_frontends::graph_section::from_section(format, text, file.config(), file.tensors())
                .map_err(|e| Error::Graph { file: file.label(), source: Box::new(e) })?;
            let graph = verified(graph)?;
            Ok(Found { graph, notes: Vec::new(), module: None, once: None, driver: None, speech: None, sight: None })
        }
        (_, None) => {
            let family = families::build(file.config(), file.tensors())
                .map_err(|source| Error::Family { file: file.label(), source: Box::new(source) })?;
            let (graph, once) = (verified(family.graph)?, family.once.map(verified).transpose()?);
            let (driver, speech, sight) = (family.driver, family.speech, family.sight);
            Ok(Found { graph, notes: family.notes, module: None, once, driver, speech, sight })
        }
    }
}

fn bytes(text: &str) -> Result<Tensor> {
    tensor(text.bytes().map(i64::from).collect(), text.len())
}

pub(crate) fn tensor(values: Vec<i64>, count: usize) -> Result<Tensor> {
    let made = Tensor::from_vec(values, count, &tallow_executor::Device::Cpu);
    Ok(made.map_err(tallow_executor::ExecutorError::from)?)
}

/// The number of tokens that the config allows: its positions, or what its rotary scaling stretches
/// the original length to, where that is more.
pub(crate) fn context(file: &ModelFile) -> Result<Option<usize>> {
    let architecture = file.config().architecture();
    let Some(positions) = architecture.usize("max_position_embeddings")?.or(architecture.usize("context_length")?)
    else {
        return Ok(None);
    };
    let Some(scaling) = architecture.table("rope_scaling")? else { return Ok(Some(positions)) };
    let stretches = matches!(scaling.str("rope_type")?, Some("dynamic" | "yarn"));
    let original = scaling.usize("original_max_position_embeddings")?.unwrap_or(positions);
    let factor = scaling.f64("factor")?.filter(|_| stretches).unwrap_or(1.0);
    Ok(Some(positions.max((original as f64 * factor) as usize)))
}
