//! Options that several subcommands share.

use crate::ui::{self, Ui};
use anyhow::Result;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use tallow::executor::kernels::team::MAX_THREADS;
use tallow::executor::sampling::SamplingParams;
use tallow::format::ReadOptions;
use tallow::format::container::DEFAULT_MAX_TEXT;
use tallow::import::{Progress, TensorReport};
use tallow::library;
use tallow::{CacheType, Engine, Model, ModelOptions, PackedCache, PackedReport};

/// Where the graph comes from.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum GraphPath {
    /// The graph section where there is one, else the family.
    #[default]
    Auto,
    /// The graph section.
    Graph,
    /// The family that the config names.
    Family,
    /// The program section.
    Program,
}

impl From<GraphPath> for tallow::Path {
    fn from(path: GraphPath) -> Self {
        match path {
            GraphPath::Auto => tallow::Path::Auto,
            GraphPath::Graph => tallow::Path::Graph,
            GraphPath::Family => tallow::Path::Family,
            GraphPath::Program => tallow::Path::Program,
        }
    }
}

/// Element type of the key-value cache.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Cache {
    /// f16 for models with block-encoded matrices, else f32.
    #[default]
    Auto,
    /// Exact.
    F32,
    /// Half precision.
    F16,
    /// 8 bits, with a scale for each 32 values.
    Q8,
}

/// Whether packed matrices are kept in a file for other runs.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Packed {
    /// For models whose packed matrices take 64 MiB or more, unless TALLOW_PACKED_CACHE says otherwise.
    #[default]
    Auto,
    /// For all models.
    On,
    /// Never.
    Off,
}

impl From<Packed> for PackedCache {
    fn from(packed: Packed) -> Self {
        match packed {
            Packed::Auto => PackedCache::Auto,
            Packed::On => PackedCache::On,
            Packed::Off => PackedCache::Off,
        }
    }
}

/// A number of things of which there has to be one.
pub fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    match text.trim().parse() {
        Ok(0) => Err("give 1 or more".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

/// As many threads as a team may have.
fn threads(text: &str) -> std::result::Result<usize, String> {
    match text.trim().parse() {
        Ok(n) if n <= MAX_THREADS => Ok(n),
        Ok(_) => Err(format!("give at most {MAX_THREADS}, or 0 for one per physical core")),
        Err(e) => Err(format!("{e}")),
    }
}

/// Limits on reading a container.
#[derive(Args, Clone, Debug)]
pub struct Reading {
    /// Read at most this many bytes of text before the first binary file.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_TEXT)]
    max_text: u64,
}

impl Reading {
    /// As the library takes them.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { max_text: self.max_text }
    }
}

/// How a model is loaded.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Loading")]
pub struct LoadOptions {
    /// Where the graph comes from.
    #[arg(long, value_enum, default_value_t)]
    pub path: GraphPath,
    /// Run the plain interpreter in f32: slow, and what everything else is checked against.
    #[arg(long)]
    pub reference: bool,
    /// Run a graph that was written for one token a call as it is, instead of widening it to whole
    /// prompts.
    #[arg(long)]
    pub token_by_token: bool,
    /// Number of threads; 0 is one per physical core.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = threads)]
    pub threads: usize,
    /// Element type of the key-value cache.
    #[arg(long, value_enum, default_value_t)]
    pub cache: Cache,
    /// Most tokens that the context may hold; by default what the model's config says.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub context: Option<usize>,
    /// Keep matrices, once packed for the processor, in the cache folder for other runs.
    #[arg(long, value_enum, default_value_t)]
    pub packed_cache: Packed,
    #[command(flatten)]
    reading: Reading,
}

impl LoadOptions {
    fn model_options(&self) -> ModelOptions {
        let mut options =
            ModelOptions { path: self.path.into(), read: self.reading.options(), ..ModelOptions::default() };
        options.program.engine = if self.reference { Engine::Reference } else { Engine::Cpu };
        options.token_by_token = self.token_by_token;
        options.program.threads = self.threads;
        options.program.context = self.context;
        options.program.packed_cache = self.packed_cache.into();
        options.program.cache = match self.cache {
            Cache::Auto => CacheType::Auto,
            Cache::F32 => CacheType::F32,
            Cache::F16 => CacheType::F16,
            Cache::Q8 => CacheType::Q8,
        };
        options
    }

    /// What opens the model at `source` each time that it is called; imported into the cache first where needed.
    pub fn opener(&self, source: Option<&Path>, ui: &Ui) -> Result<impl FnMut() -> tallow::Result<Model> + use<>> {
        let options = self.model_options();
        let found =
            source.map(|source| Ok::<_, tallow::Error>((source.to_owned(), resolve(source, ui)?))).transpose()?;
        Ok(move || match &found {
            None => Model::storyteller_with(&options),
            Some((source, file)) => Model::from_file(library::open(source, file, &options.read)?, &options),
        })
    }

    /// The model at `source`, imported into the cache first where needed; the embedded one without a
    /// source.
    pub fn load(&self, source: Option<&Path>, ui: &Ui) -> Result<Model> {
        let model = self.opener(source, ui)?()?;
        model.notes().for_each(|note| ui.warn(note));
        Ok(model)
    }
}

/// Says what happened to packed matrices that a user should know, once a model has run. Waits for their file.
pub fn warn_of_packed(model: &Model, ui: &Ui) {
    packed_report(model).warnings.iter().for_each(|w| ui.warn(w));
}

/// What happened to packed matrices, once their file is written: what goes wrong with it is known then.
pub fn packed_report(model: &Model) -> PackedReport {
    model.program().packed().finish();
    model.program().packed().report()
}

/// What happened to packed matrices, for machines.
pub fn packed_json(report: &PackedReport) -> serde_json::Value {
    serde_json::json!({
        "matrices": report.matrices,
        "bytes": report.bytes,
        "packed": report.packed,
        "mapped": report.mapped,
        "packing_seconds": report.packing.as_secs_f64(),
        "checking_seconds": report.checking.as_secs_f64(),
        "file": report.file,
        "warnings": report.warnings,
        "notes": report.notes,
    })
}

/// The `.model` file for a source, imported into the cache first where needed.
pub fn resolve(source: &Path, ui: &Ui) -> tallow::Result<PathBuf> {
    let mut bar = ImportBar::new(ui);
    let resolved = tallow::library::resolve(source, &mut bar)?;
    bar.bar.finish_and_clear();
    if let Some(report) = &resolved.imported {
        ui.note(format!(
            "imported {} to {} ({})",
            source.display(),
            resolved.path.display(),
            ui::file_size(&resolved.path)
        ));
        report.warnings.iter().for_each(|w| ui.warn(w));
    }
    Ok(resolved.path)
}

/// How the next token is chosen.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Sampling (by default what the model's config says)")]
pub struct SamplingOptions {
    /// Randomness; 0 always takes the likeliest token.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep the N likeliest tokens; 0 is off.
    #[arg(long, value_name = "N")]
    top_k: Option<usize>,
    /// Keep the likeliest tokens that together reach this probability; 1 is off.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep tokens at least this many times as likely as the likeliest; 0 is off.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Make tokens that occurred less likely; 1 is off.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// Seed of the random numbers: the same seed gives the same text. By default another one each time,
    /// and 0 for a graph that is run on inputs.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingOptions {
    /// The seed that was given.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether anything says how tokens are picked.
    pub fn is_given(&self) -> bool {
        let SamplingOptions { temperature, top_k, top_p, min_p, repetition_penalty, seed } = self;
        let numbers = [temperature, top_p, min_p, repetition_penalty].into_iter().any(Option::is_some);
        numbers || top_k.is_some() || seed.is_some()
    }

    /// Whether anything says that tokens are picked at random.
    pub fn samples(&self) -> bool {
        let numbers = [self.temperature, self.top_p, self.min_p];
        numbers.into_iter().any(|number| number.is_some()) || self.top_k.is_some() || self.seed.is_some()
    }

    /// The model's sampling with what the command line overrides.
    pub fn over(&self, model: &Model) -> Result<SamplingParams> {
        let clock = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |d| u64::from(d.subsec_nanos()) ^ (d.as_secs() & 0xffff) << 16)
        };
        let mut params = model.sampling(self.seed.unwrap_or_else(clock))?;
        if let Some(temperature) = self.temperature {
            params.temperature = temperature;
        }
        if let Some(top_k) = self.top_k {
            params.top_k = top_k;
        }
        if let Some(top_p) = self.top_p {
            params.top_p = top_p;
        }
        if let Some(min_p) = self.min_p {
            params.min_p = min_p;
        }
        if let Some(penalty) = self.repetition_penalty {
            params.repetition_penalty = penalty;
        }
        Ok(params)
    }
}

/// Shows an import as a bar, and stops it on Ctrl-C.
pub struct ImportBar<'a> {
    ui: &'a Ui,
    /// The bar; hidden where there is no terminal.
    pub bar: ProgressBar,
}

impl<'a> ImportBar<'a> {
    /// A bar that appears once the total is known.
    pub fn new(ui: &'a Ui) -> Self {
        ImportBar { ui, bar: ProgressBar::hidden() }
    }
}

impl Progress for ImportBar<'_> {
    fn start(&mut self, _tensors: usize, bytes: u64) {
        self.bar = self.ui.bytes_bar(bytes, "importing");
    }

    fn tensor(&mut self, report: &TensorReport, source_bytes: u64) {
        self.bar.set_message(report.name.clone());
        self.bar.inc(source_bytes);
    }

    fn cancelled(&self) -> bool {
        ui::interrupted()
    }
}
