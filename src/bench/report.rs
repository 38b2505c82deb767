//! What a measurement found.

use super::{Measurements, instruction, processor};
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
    /// From opening the file until the first token after a prompt of 8 was chosen.
    pub first_token_seconds: Measurements,
    /// The most memory resident at a time, in bytes, where the system tells.
    pub peak_memory: Option<u64>,
    /// Prompts.
    pub prefill: Vec<Prefill>,
    /// Generation.
    pub decode: Vec<Decode>,
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
        json!({
            "model": self.model,
            "weight_bytes": self.weight_bytes,
            "processor": self.processor,
            "threads": self.threads,
            "engine": if self.reference { "reference" } else { "cpu" },
            "instruction_set": self.instruction_set,
            "cache": self.cache.name(),
            "repetitions": self.repetitions,
            "load_seconds": self.load_seconds.json(),
            "first_token_seconds": self.first_token_seconds.json(),
            "peak_memory_bytes": self.peak_memory,
            "prefill": prefill.collect::<Vec<_>>(),
            "decode": decode.collect::<Vec<_>>(),
            "bandwidth_bytes_per_second": self.bandwidth.json(),
            "peak_multiply_adds_per_second": self.peak.json(),
            "peak_instruction": self.instruction,
            "skipped": self.skipped,
        })
    }
}
