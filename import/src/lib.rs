//! GGUF files and Hugging Face folders into `.model`.
//!
//! | module | does |
//! |---|---|
//! | [`gguf`], [`safetensors`] | read the containers of other tools, mapped, every count checked |
//! | [`source`] | tensors of either under their Hugging Face names, by rows |
//! | [`config`] | settings of either in one normal form, every default written out |
//! | [`tokenizer`] | vocabularies of either |
//! | [`encode`] | chooses encodings, encodes in parallel, measures the error |
//! | [`import_with_graph`] | tensors and a graph, for what no family knows |
//! | [`report`] | what was done |
//!
//! This crate writes through `tallow-format` and asks `tallow-frontends` which tensors a model needs. It uses no network.

mod card;
mod chat;
pub mod config;
pub mod encode;
mod error;
mod experts;
mod files;
pub mod gguf;
mod graph_only;
mod json;
mod locate;
mod map;
mod names;
mod open;
pub mod program;
pub mod report;
pub mod safetensors;
mod scheme;
mod sentences;
pub mod source;
pub mod tokenizer;

pub use encode::EncodingChoice;
pub use error::{BadValue, ImportError, Result};
pub use graph_only::{GivenGraph, GivenProgram, import_with_graph, import_with_program};
pub use locate::{SourceIdentity, SourceKind, locate, scan};
pub use map::MappedFile;
pub use report::{ImportReport, TensorReport};

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde_json::Value;
use tallow_format::encoding::Encoding;
use tallow_format::{Config, GraphFormat, ModelParts, ModelWriter, ReadOptions, TensorPlan, Vocab};
use tallow_frontends::families;
use tallow_frontends::program::{Language, Module, Options, compile};
use tallow_ir::Graph;

use crate::config::Ids;
use crate::open::Opened;
use crate::report::Totals;
use crate::source::{Source, SourceTensor};

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Which encodings tensors get.
    pub encoding: EncodingChoice,
    /// Do everything but write.
    pub dry_run: bool,
    /// Settings (or tensors) of the source to leave out although nothing reads them.
    pub ignore_settings: Vec<String>,
    /// Name of the model; the source's own when `None`.
    pub name: Option<String>,
    /// Write the graph that the family builds into the model, as a graph section: the file then runs
    /// without that anything knows its family.
    pub graph: bool,
}

/// Told how far an import is.
pub trait Progress {
    /// So many tensors will follow, of so many bytes in the source.
    fn start(&mut self, tensors: usize, bytes: u64) {
        let _ = (tensors, bytes);
    }

    /// A tensor has been encoded and, but for a dry run, written; it had so many bytes in the source.
    fn tensor(&mut self, report: &TensorReport, source_bytes: u64) {
        let _ = (report, source_bytes);
    }

    /// Asked after each tensor: whether to stop, which leaves nothing behind.
    fn cancelled(&self) -> bool {
        false
    }

    /// All tensors are done; what is left is to put the file in place.
    fn finish(&mut self) {}
}

impl Progress for () {}

/// Imports `src`, a GGUF file or shard, a Hugging Face folder or a file in one, into `out`.
///
/// The file appears under its name only when it is whole; any error leaves nothing behind.
pub fn import(src: &Path, out: &Path, options: &ImportOptions, progress: &mut dyn Progress) -> Result<ImportReport> {
    let opened = match locate(src)? {
        SourceKind::Gguf(path) => open::gguf(&path, &options.ignore_settings)?,
        SourceKind::Folder(path) => open::folder(&path, None, &options.ignore_settings)?,
        SourceKind::Weights { folder, .. } if !crate::files::is_there(&folder.join("config.json"))? => {
            return Err(ImportError::refused(
                src.display().to_string(),
                "no `config.json` lies beside the tensors, so that no family can be chosen",
                "Give the folder of the whole model, or a graph that reads the tensors: `tallow import FILE --graph=GRAPH.txt`.",
            ));
        }
        SourceKind::Weights { folder, file } => open::folder(&folder, Some(&file), &options.ignore_settings)?,
        SourceKind::Repository(name) => return Err(locate::not_here(&name)),
    };
    let prepared = prepare(src, out, &opened, options)?;
    write(src, out, &opened.source, prepared, options, progress)
}

/// Everything but the weights.
struct Prepared {
    parts: ModelParts,
    plan: Vec<TensorPlan>,
    model_type: String,
    parameters: u64,
    warnings: Vec<String>,
}

fn prepare(src: &Path, out: &Path, opened: &Opened, options: &ImportOptions) -> Result<Prepared> {
    let Opened { source, config, tokenizer, template } = opened;
    let mut warnings = config.warnings.clone();
    let architecture = match &config.towers {
        Some(table) => {
            config::settings::refuse_quantised(&config.settings, src)?;
            config::settings::taken_over(config.spec, table, &options.ignore_settings)
        }
        None => config::settings::architecture(config.spec, &config.settings, src, &options.ignore_settings)?,
    };
    warnings.extend(architecture.warnings.iter().cloned());
    let ids = united_ids(&config.ids, tokenizer.as_ref());
    let parameters = source.tensors().iter().map(SourceTensor::values).sum();
    let (config_text, more) = config::text::config_text(config, &architecture, tokenizer.as_ref(), &ids, parameters);
    warnings.extend(more);
    let program = program::for_type(architecture.model_type);
    // A program is not asked: a word about ids too many does no harm.
    let mut takes = Takes { ids: true, pictures: false };
    let graph = match &program {
        Some((_, source)) if families::canonical_type(architecture.model_type).is_none() => {
            check_program(src, &config_text, opened, source, options, &mut warnings)?
        }
        _ => {
            let family = check_family(src, &config_text, opened)?;
            if options.graph && family.once.is_some() {
                return Err(several_graphs(src));
            }
            let graph = options.graph.then(|| graph_section(src, &family.graph)).transpose()?;
            takes = Takes::of(&family);
            warnings.extend(family.notes);
            graph
        }
    };
    match tokenizer {
        None if !takes.ids => {}
        None => warnings.push("The source has no tokenizer; the model takes token ids, not text.".into()),
        Some(tokenizer) => {
            warnings.extend(tokenizer.warnings.iter().cloned());
            if ids.eos.is_empty() {
                warnings.push("The source names no token that ends a text; generation ends at its limit only.".into());
            }
            let rows = architecture.table.get("vocab_size").and_then(Value::as_u64).unwrap_or(0);
            if tokenizer.vocab.len() as u64 > rows {
                warnings.push(format!(
                    "The tokenizer has ids up to {}, and the model {rows} rows: the last tokens cannot be used.",
                    tokenizer.vocab.len().saturating_sub(1)
                ));
            }
        }
    }
    let name = model_name(options, config.name.as_deref(), src);
    let number = |key: &str| architecture.table.get(key).and_then(Value::as_u64).unwrap_or(0);
    let mut source_types: Vec<String> = Vec::new();
    for tensor in source.tensors() {
        if !source_types.iter().any(|t| t == tensor.ty.name()) {
            source_types.push(tensor.ty.name().to_owned());
        }
    }
    let file = out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let chat = tokenizer.as_ref().and_then(|t| chat::section(template.as_deref(), &t.vocab, &ids.eos));
    let card = card::card(
        &card::CardFacts {
            name: &name,
            file: &file,
            model_type: architecture.model_type,
            parameters,
            layers: number("num_hidden_layers"),
            context: number("max_position_embeddings"),
            source_types: &source_types,
            encoding: &options.encoding.to_string(),
            has_tokenizer: tokenizer.is_some(),
            has_chat: chat.is_some(),
            takes_ids: takes.ids,
            sees: takes.pictures && architecture.table.contains_key(families::PROCESSOR),
        },
        config,
    );
    let plan = plan(source, options)?;
    let vocab = tokenizer.as_ref().map_or_else(|| "{}\n".to_owned(), |t| t.vocab.to_text());
    check_vocab(src, &vocab)?;
    let parts = ModelParts { name, card, config: config_text, program, graph, chat, vocab, eval: String::new() };
    Ok(Prepared { parts, plan, model_type: architecture.model_type.to_owned(), parameters, warnings })
}

/// A vocabulary that the reader of models takes, so that what is written can be opened.
fn check_vocab(src: &Path, text: &str) -> Result<()> {
    let cure = "Check the tokenizer's files, or take them away: the model then takes ids.";
    let refused = |cause: String| Err(ImportError::malformed(src, "tokenizer", cause, cure));
    // What else a model says in text takes far less than this.
    const OTHERS: u64 = 1 << 20;
    let most = ReadOptions::default().max_text - OTHERS;
    if text.len() as u64 > most {
        return refused(format!("its vocabulary takes {} bytes of text; at most {most} are read", text.len()));
    }
    match Vocab::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => refused(format!("its vocabulary cannot be used: {error}")),
    }
}

/// What a model takes.
struct Takes {
    ids: bool,
    pictures: bool,
}

impl Takes {
    fn of(family: &families::Family) -> Self {
        let graphs = || family.once.iter().chain([&family.graph]);
        let takes = |name: &str| graphs().any(|graph| graph.input_named(name).is_some());
        Takes { ids: takes("input_ids"), pictures: takes(families::vision::PIXELS) }
    }
}

/// The special tokens of config and tokenizer together.
fn united_ids(config: &Ids, tokenizer: Option<&tokenizer::TokenizerText>) -> Ids {
    let Some(tokenizer) = tokenizer else {
        return config.clone();
    };
    let begins = tokenizer.settings.iter().any(|(k, v)| k == "add_bos" && *v == Value::Bool(true));
    let own = &tokenizer.ids;
    let mut ids = Ids {
        // The token that the tokenizer itself puts first wins over what the config calls by that name.
        bos: if begins { own.bos.or(config.bos) } else { config.bos.or(own.bos) },
        eos: config.eos.clone(),
        pad: config.pad.or(own.pad),
        unk: config.unk.or(own.unk),
    };
    own.eos.iter().for_each(|&id| ids.add_eos(id));
    ids
}

/// Asks the family whether every tensor is there in its shape, and that none is left without a reader.
fn check_family(src: &Path, config_text: &str, opened: &Opened) -> Result<families::Family> {
    let config = Config::parse(config_text)?;
    let shapes: IndexMap<String, Vec<u64>> =
        opened.source.tensors().iter().map(|t| (t.name.clone(), t.shape.clone())).collect();
    let family = families::build(&config, &shapes).map_err(|e| {
        let cause = e.to_string().trim_end_matches('.').to_owned();
        let cure = "Check that the source is whole, and that it is the model its config describes.";
        match (e.is_unsupported(), generation_key(src, &cause)) {
            (true, _) => ImportError::unsupported(src, "model", cause, cure),
            (false, Some((file, key))) => ImportError::malformed(&file, format!("key `{key}`"), cause, cure),
            (false, None) => ImportError::malformed(src, "model", cause, cure),
        }
    })?;
    let unread: Vec<String> = family
        .unread_tensors
        .iter()
        .map(|name| match opened.source.tensor(name) {
            Some(t) if t.source_name != *name => {
                format!("{name} ({} in the source)", t.source_name)
            }
            _ => name.clone(),
        })
        .collect();
    if !unread.is_empty() {
        return Err(ImportError::unsupported(
            src,
            "tensors",
            format!("type `{}` reads no such tensors: {}", family.model_type, error::names(&unread, 8)),
            "If the model works without them, leave them out with `--ignore-setting NAME`.",
        ));
    }
    Ok(family)
}

/// The setting that an error is about and its file, where that is not `config.json`, whose settings stand in one table with
/// these.
fn generation_key(src: &Path, cause: &str) -> Option<(PathBuf, &'static str)> {
    let key = families::seq2seq::GENERATION.iter().find(|key| cause.contains(&format!("`architecture.{key}`")))?;
    let file = src.join("generation_config.json");
    let settings = json::read_optional(&file).ok()??;
    settings.get(*key).is_some_and(|value| !value.is_null()).then_some((file, *key))
}

/// Compiles a program (language, text and name) for tensors, and warns of what it leaves without a reader.
pub(crate) fn compiled(
    src: &Path,
    config: &Config,
    source: &Source,
    (language, text, name): (Language, &str, &str),
    warnings: &mut Vec<String>,
) -> Result<Module> {
    let shapes: IndexMap<String, Vec<u64>> =
        source.tensors().iter().map(|t| (t.name.clone(), t.shape.clone())).collect();
    let module = compile(text, language, name, config, Some(&shapes), Options::default()).map_err(|e| {
        let cure = "Check that the source is whole, and that it is the model its config describes.";
        if e.is_unsupported() {
            ImportError::unsupported(src, "model", e.to_string(), cure)
        } else {
            ImportError::malformed(src, "model", e.to_string(), cure)
        }
    })?;
    warnings.extend(module.notes.iter().cloned());
    let read: HashSet<&str> = module.graphs.values().flat_map(|g| g.weights().map(|(name, _)| name)).collect();
    let unread: Vec<&str> = shapes.keys().map(String::as_str).filter(|n| !read.contains(n)).collect();
    if !unread.is_empty() {
        warnings.push(format!("The program reads no such tensors: {}.", error::names(&unread, 8)));
    }
    let mut idle = module.unread_keys(config);
    let of_pictures = |key: &str| key.contains(families::PROCESSOR);
    idle.retain(|key| !config::settings::is_harmless(key) && !of_pictures(key));
    if !idle.is_empty() {
        warnings.push(format!("The program reads no such settings: {}.", error::names(&idle, 12)));
    }
    Ok(module)
}

/// Compiles the program of the library that computes a type, and warns of what it leaves without a reader; the graph
/// section where one is asked for.
fn check_program(
    src: &Path,
    config_text: &str,
    opened: &Opened,
    program: &str,
    options: &ImportOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<(GraphFormat, String)>> {
    let config = Config::parse(config_text)?;
    let name = format!("the program for `{}`", config.model_type());
    let module = compiled(src, &config, &opened.source, (Language::Rs, program, &name), warnings)?;
    if !options.graph {
        return Ok(None);
    }
    match module.graphs.len() {
        1 => module.main().map(|graph| graph_section(src, graph)).transpose(),
        _ => Err(several_graphs(src)),
    }
}

fn several_graphs(src: &Path) -> ImportError {
    ImportError::unsupported(
        src,
        "graph",
        "this model computes several graphs, and a graph section holds one",
        "Import it without --graph.",
    )
}

/// The graph section for a graph. Types of weights are no part of a section, so that it holds for
/// whatever encodings are chosen.
fn graph_section(src: &Path, graph: &Graph) -> Result<(GraphFormat, String)> {
    let format = GraphFormat::Hex;
    let text = tallow_frontends::graph_section::of_graph(format, graph).map_err(|e| {
        ImportError::unsupported(
            src,
            "graph",
            format!("a graph section cannot hold the graph of this model: {e}"),
            "Import it without --graph.",
        )
    })?;
    Ok((format, text))
}

fn model_name(options: &ImportOptions, own: Option<&str>, src: &Path) -> String {
    let stem = src.file_stem().and_then(|s| s.to_str());
    let name = options.name.as_deref().or(own).or(stem).unwrap_or("model");
    // One line, as the frontmatter wants it.
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    let name = name.trim();
    if name.is_empty() { "model".into() } else { name.to_owned() }
}

fn scale_name(name: &str) -> String {
    format!("{name}.scale")
}

fn plan(source: &Source, options: &ImportOptions) -> Result<Vec<TensorPlan>> {
    let mut plan = Vec::new();
    for tensor in source.tensors() {
        let candidates = encode::candidates(tensor, options.encoding)?;
        let ternary = candidates == [Encoding::Ternary];
        plan.push(TensorPlan { name: tensor.name.clone(), shape: tensor.shape.clone(), candidates });
        if ternary {
            plan.push(TensorPlan {
                name: scale_name(&tensor.name),
                shape: vec![encode::scale_rows(tensor)],
                candidates: vec![Encoding::U32],
            });
        }
    }
    Ok(plan)
}

fn write(
    src: &Path,
    out: &Path,
    source: &Source,
    prepared: Prepared,
    options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<ImportReport> {
    let Prepared { parts, plan, model_type, parameters, mut warnings } = prepared;
    let needed = plan
        .iter()
        .filter_map(|t| {
            let values = t.shape.iter().product();
            t.candidates.iter().filter_map(|e| e.byte_len(values)).min()
        })
        .sum();
    let fail = |e| ImportError::writing(out, Some(needed), e);
    let name = parts.name.clone();
    let mut writer = match options.dry_run {
        true => None,
        false => Some(ModelWriter::create(out, parts, plan).map_err(fail)?),
    };
    let bytes = source.tensors().iter().map(|t| t.byte_len() as u64).sum();
    progress.start(source.tensors().len(), bytes);
    let mut reports = Vec::new();
    let mut totals = Totals::default();
    let mut losses = encode::Losses::default();
    for tensor in source.tensors() {
        let encoded = encode::encode(source, tensor, options.encoding)?;
        let source_bytes = tensor.byte_len() as u64;
        let mut put = |name: String, shape, encoding: Encoding, bytes: &[u8], error, from: u64| {
            if let Some(writer) = &mut writer {
                writer.begin(&name, encoding).and_then(|()| writer.write(bytes)).map_err(fail)?;
            }
            let report = TensorReport {
                name,
                shape,
                source_type: tensor.ty.name().to_owned(),
                encoding: encoding.name().to_owned(),
                bytes: bytes.len() as u64,
                relative_error: error,
            };
            totals.add(&report, from);
            progress.tensor(&report, from);
            reports.push(report);
            Ok::<(), ImportError>(())
        };
        put(tensor.name.clone(), tensor.shape.clone(), encoded.encoding, &encoded.bytes, encoded.error, source_bytes)?;
        if let Some(scales) = &encoded.scales {
            let rows = encode::scale_rows(tensor);
            put(scale_name(&tensor.name), vec![rows], Encoding::U32, scales, 0.0, 0)?;
        }
        if progress.cancelled() {
            return Err(ImportError::refused(
                "the import",
                "was stopped on request",
                "Start it again to get the model.",
            ));
        }
        losses.add(tensor, &encoded, options.encoding);
        warnings.extend(encoded.warning);
        source.release(tensor);
    }
    warnings.extend(losses.warning());
    progress.finish();
    if let Some(writer) = writer {
        writer.finish().map_err(fail)?;
    }
    Ok(ImportReport {
        source: src.to_owned(),
        output: (!options.dry_run).then(|| out.to_owned()),
        name,
        model_type,
        parameters,
        tensors: reports,
        left_out: source.left_out().to_vec(),
        warnings,
        totals,
    })
}
