//! What a measurement found.

use super::{Measurements, instruction, processor};
use crate::Model;
use serde_json::{Value, json};
use tallow_executor::Engine;

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
        self.instruction = instruction();
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
