//! What a measurement found.

use super::{Input, Measurements, instruction, processor};
use crate::Model;
use serde_json::{Value, json};
use tallow_executor::kernels::Isa;
use tallow_executor::{CacheType, Engine, PackedReport};

/// Speed of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prefill {
    /// Its tokens.
    pub tokens: usize,
    /// Tokens per second.
    pub tokens_per_second: Measurements,
    /// Multiply-adds of products and attention for a token.
    pub multiply_adds: f64,
    /// Their rate as a part of the measured peak.
    pub share: Measurements,
}

/// Speed of a whole input that runs at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Encode {
    /// What it is.
    pub input: Input,
    /// Seconds of a call; of sound with its spectrogram.
    pub seconds: Measurements,
    /// Multiply-adds of products and attention of a call.
    pub multiply_adds: f64,
    /// Their rate as a part of the measured peak.
    pub share: Measurements,
}

impl Encode {
    /// What is counted of the input, in the plural, and how many of it a second has.
    pub fn rates(&self) -> Vec<(&'static str, Measurements)> {
        let per_second = |name, amount: usize| (name, self.seconds.per_second(amount as f64));
        match self.input {
            Input::Texts { count, length } => vec![per_second("texts", count), per_second("tokens", count * length)],
            Input::Source { tokens } => vec![per_second("tokens", tokens)],
            Input::Picture { .. } => vec![per_second("pictures", 1)],
            Input::Window { .. } => Vec::new(),
        }
    }

    fn json(&self) -> Value {
        let mut json = match self.input {
            Input::Texts { count, length } => json!({ "what": "texts", "texts": count, "length": length }),
            Input::Source { tokens } => json!({ "what": "source", "length": tokens }),
            Input::Picture { size } => json!({ "what": "picture", "height": size[0], "width": size[1] }),
            Input::Window { seconds } => json!({ "what": "window", "sound_seconds": seconds }),
        };
        json["seconds"] = self.seconds.json();
        for (name, rate) in self.rates() {
            json[format!("{name}_per_second")] = rate.json();
        }
        json["multiply_adds"] = self.multiply_adds.into();
        json["share_of_peak"] = self.share.json();
        json
    }
}

/// Speed of one token after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decode {
    /// Tokens in the cache before the first.
    pub depth: usize,
    /// Tokens generated.
    pub tokens: usize,
    /// Tokens per second.
    pub tokens_per_second: Measurements,
    /// Bytes of encoded matrices and of the cache that a token needs read.
    pub bytes: f64,
    /// Their rate as a part of the measured bandwidth.
    pub share: Measurements,
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The model.
    pub model: String,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Threads.
    pub threads: usize,
    /// Whether the reference engine ran.
    pub reference: bool,
    /// The name of the instruction set that kernels run on.
    pub instruction_set: &'static str,
    /// How keys and values are cached.
    pub cache: CacheType,
    /// Measurements of each quantity.
    pub repetitions: usize,
    /// From opening the file until a session could run, tokenizer included.
    pub load_seconds: Measurements,
    /// From opening the file until the first token after a prompt of 8 was chosen; until the first result of a model that
    /// writes no tokens.
    pub first_token_seconds: Measurements,
    /// Whether the model writes tokens.
    pub writes: bool,
    /// The most memory resident at a time, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    /// Whole inputs: texts, sources of texts, pictures, windows of sound.
    pub encode: Vec<Encode>,
    /// Prompts.
    pub prefill: Vec<Prefill>,
    /// Generation.
    pub decode: Vec<Decode>,
    /// Of a model of speech: seconds of sound for each second of work, where each window gets the tokens of the first of
    /// `decode`.
    pub real_time: Measurements,
    /// Bytes per second that the threads read from memory.
    pub bandwidth: Measurements,
    /// Multiply-adds per second that the threads do without memory.
    pub peak: Measurements,
    /// The instruction of the peak.
    pub instruction: &'static str,
    /// What became of packed matrices, of the last opening.
    pub packed: PackedReport,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

impl Report {
    pub(super) fn describe(&mut self, model: &Model) {
        self.model = model.file().label();
        self.weight_bytes = model.file().weights().len() as u64;
        self.processor = processor();
        self.threads = model.program().threads();
        self.reference = model.program().options().engine == Engine::Reference;
        self.instruction_set = Isa::detect().name();
        self.cache = model.program().cache_type();
        self.instruction = instruction();
    }

    /// Waits for what a model does about packed matrices, and keeps the warnings of all openings, each once.
    pub(super) fn warnings_of(&mut self, model: &Model) {
        let packed = model.program().packed();
        packed.finish();
        let mut warnings = std::mem::take(&mut self.packed.warnings);
        self.packed = packed.report();
        for warning in self.packed.warnings.drain(..) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        self.packed.warnings = warnings;
    }

    /// All of it, for machines; quantities carry their unit in the name.
    pub fn json(&self) -> Value {
        let prefill = self.prefill.iter().map(|p| {
            json!({
                "tokens": p.tokens,
                "tokens_per_second": p.tokens_per_second.json(),
                "multiply_adds_per_token": p.multiply_adds,
                "share_of_peak": p.share.json(),
            })
        });
        let decode = self.decode.iter().map(|d| {
            json!({
                "depth": d.depth,
                "tokens": d.tokens,
                "tokens_per_second": d.tokens_per_second.json(),
                "bytes_per_token": d.bytes,
                "share_of_bandwidth": d.share.json(),
            })
        });
        let first = if self.writes { "first_token_seconds" } else { "first_result_seconds" };
        let mut all = json!({
            "model": self.model,
            "weight_bytes": self.weight_bytes,
            "processor": self.processor,
            "threads": self.threads,
            "engine": if self.reference { "reference" } else { "cpu" },
            "instruction_set": self.instruction_set,
            "cache": self.cache.name(),
            "repetitions": self.repetitions,
            "load_seconds": self.load_seconds.json(),
            first: self.first_token_seconds.json(),
            "peak_memory_bytes": self.peak_memory,
            "encode": self.encode.iter().map(Encode::json).collect::<Vec<_>>(),
            "prefill": prefill.collect::<Vec<_>>(),
            "decode": decode.collect::<Vec<_>>(),
            "bandwidth_bytes_per_second": self.bandwidth.json(),
            "peak_multiply_adds_per_second": self.peak.json(),
            "peak_instruction": self.instruction,
            "skipped": self.skipped,
        });
        if !self.real_time.values().is_empty() {
            all["real_time_factor"] = self.real_time.json();
        }
        all
    }
}
