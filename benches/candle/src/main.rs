//! Speed of Candle's own quantised models: `bench-candle GGUF REPETITIONS DECODE PREFILL…` prints one JSON object.
//!
//! Threads are those of rayon's global pool (`RAYON_NUM_THREADS`).

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models::{quantized_gemma3, quantized_qwen2};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

enum Model {
    Qwen2(quantized_qwen2::ModelWeights),
    Gemma3(quantized_gemma3::ModelWeights),
}

impl Model {
    fn load(path: &str) -> Fallible<Self> {
        let mut file = std::fs::File::open(path)?;
        let content = Content::read(&mut file)?;
        let architecture = content.metadata.get("general.architecture").ok_or("the GGUF names no architecture")?;
        match architecture.to_string()?.as_str() {
            "qwen2" => Ok(Model::Qwen2(quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?)),
            "gemma3" => Ok(Model::Gemma3(quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?)),
            other => Err(format!("the architecture {other} is not measured here").into()),
        }
    }

    /// The likeliest token after `ids`, and the seconds of the call.
    fn forward(&mut self, ids: &[u32], past: usize) -> Fallible<(u32, f64)> {
        let input = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let start = Instant::now();
        let logits = match self {
            Model::Qwen2(model) => model.forward(&input, past)?,
            Model::Gemma3(model) => model.forward(&input, past)?,
        };
        let seconds = start.elapsed().as_secs_f64();
        let row = logits.flatten_all()?.to_vec1::<f32>()?;
        let best = row.iter().enumerate().fold((0, f32::MIN), |best, (i, &v)| if v > best.1 { (i, v) } else { best });
        Ok((best.0 as u32, seconds))
    }
}

/// As `tallow bench` makes them, from few enough tokens for any vocabulary.
fn ids(count: usize) -> Vec<u32> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 100_000) as u32
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "--version") {
        println!("0.11.1");
        return Ok(());
    }
    let [path, repetitions, decode, prefill @ ..] = arguments.as_slice() else {
        return Err("bench-candle GGUF REPETITIONS DECODE PREFILL…".into());
    };
    let (repetitions, decode): (usize, usize) = (repetitions.parse()?, decode.parse()?);
    let start = Instant::now();
    let mut model = Model::load(path)?;
    model.forward(&ids(8), 0)?;
    let first = start.elapsed().as_secs_f64();
    // A call at place 0 begins a new text: the cache of the one before is dropped.
    let mut prompts: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for tokens in prefill {
        let tokens: usize = tokens.parse()?;
        let prompt = ids(tokens);
        model.forward(&prompt, 0)?;
        for _ in 0..repetitions {
            let (_, seconds) = model.forward(&prompt, 0)?;
            prompts.entry(tokens).or_default().push(tokens as f64 / seconds);
        }
    }
    let mut rates = Vec::new();
    for _ in 0..repetitions {
        let (mut next, _) = model.forward(&ids(1), 0)?;
        let mut all = 0.0;
        for past in 1..=decode {
            let (token, seconds) = model.forward(&[next], past)?;
            (next, all) = (token, all + seconds);
        }
        rates.push(decode as f64 / all);
    }
    let answer = json!({
        "first_token_seconds": first, "prefill": prompts, "decode": { "0": rates }, "peak_bytes": peak(),
    });
    println!("{answer}");
    Ok(())
}
