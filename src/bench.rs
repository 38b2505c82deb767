//! Measuring: how fast a model loads, reads prompts and continues them here, beside what the machine allows.
//!
//! Speeds go up and down on a shared machine, so everything is measured several times, and the limits between the
//! measurements: a share compares a rate with the limit just before and just after it.

mod limits;
mod phase;
mod profile;
mod report;
mod statistics;
mod subject;
mod system;
#[cfg(test)]
mod tests;
mod trace;
mod work;

pub use phase::{Line, Phase};
pub use profile::{Profile, ProfileOptions, Ran, profile, prompt_ids};
pub use report::{Decode, Encode, Prefill, Report};
pub use statistics::Measurements;
pub use subject::{Input, Subject};
pub use system::peak_memory;
pub use work::{Call, Work, of_plan, of_step};

use crate::{Error, Model, Result};
use limits::Limits;
use std::time::Instant;
use subject::{Whole, context};
use system::{instruction, processor};
use tallow_executor::kernels::machine;
use tallow_executor::{ExecutorError, Rows, Session, Tensor};

/// Tokens of the prompt of the time to the first token.
const FIRST_PROMPT: usize = 8;
/// The longest text that is measured, also where the model sets no limit: ids and caches take memory for each token.
const LONGEST: usize = 1 << 24;

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// How often; at least once.
    pub repetitions: usize,
    /// Lengths of prompts, of models that go on with them.
    pub prefill: Vec<usize>,
    /// Lengths of whole texts, of models that read those.
    pub length: Vec<usize>,
    /// About so many tokens of whole texts run in a call.
    pub batch: usize,
    /// Tokens to generate.
    pub decode: usize,
    /// Tokens in the cache before them.
    pub depth: Vec<usize>,
    /// Bytes over which the bandwidth is measured.
    pub memory: usize,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions {
            repetitions: 5,
            prefill: vec![64, 512],
            length: vec![32, 256],
            batch: 512,
            decode: 128,
            depth: vec![0, 2048],
            memory: machine::BYTES,
        }
    }
}

/// Is told how far a measurement is, and may stop it.
pub trait Progress {
    /// So many parts will be measured.
    fn start(&mut self, parts: usize);
    /// One more part begins.
    fn part(&mut self, what: &str);
    /// Whether to stop.
    fn cancelled(&self) -> bool;
}

/// Measures the model that `open` opens; it is opened several times.
///
/// # Errors
/// A model that takes what cannot be measured; those of opening and running it; being cancelled.
pub fn run(
    open: &mut dyn FnMut() -> Result<Model>,
    options: &BenchOptions,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let repetitions = options.repetitions.max(1);
    let mut report = Report { repetitions, ..Report::default() };
    progress.start(repetitions);
    let mut opened: Option<Model> = None;
    for _ in 0..repetitions {
        part(progress, "load")?;
        // Two of them at once would not fit everywhere, and would count as peak memory.
        if let Some(model) = opened.take() {
            report.warnings_of(&model);
        }
        opened = Some(opening(open, &mut report)?);
    }
    let Some(model) = opened else { return Ok(report) };
    report.describe(&model);
    let mut bench = Bench::new(&model, options, &mut report)?;
    let parts = report.encode.len() + report.prefill.len() + report.decode.len();
    // Once unmeasured: then every page is there, and the memory that running takes is known before more is taken here.
    progress.start(repetitions.saturating_add(1).saturating_mul(parts));
    bench.warm_up(&report, progress)?;
    report.peak_memory = peak_memory();
    let mut limits = Limits::new(model.program().team());
    if !report.decode.is_empty() {
        limits.take(options.memory)?;
    }
    for _ in 0..repetitions {
        bench.measure(&mut report, &mut limits, progress)?;
    }
    (report.bandwidth, report.peak) = limits.measured();
    report.warnings_of(&model);
    Ok(report)
}

/// One more part, unless nobody wants it.
fn part(progress: &mut dyn Progress, what: &str) -> Result<()> {
    match progress.cancelled() {
        true => Err(Error::Usage("measuring was interrupted".into())),
        false => {
            progress.part(what);
            Ok(())
        }
    }
}

/// Opens the model once and waits for its first result.
fn opening(open: &mut dyn FnMut() -> Result<Model>, report: &mut Report) -> Result<Model> {
    let start = Instant::now();
    let model = open()?;
    let subject = Subject::of(&model)?;
    report.writes = subject.writes();
    // A model without a tokenizer is ready without one.
    let _ = model.tokenizer();
    let mut session = Session::new(model.program().clone());
    report.load_seconds.push(start.elapsed().as_secs_f64());
    let whole = match subject {
        Subject::Sight => None,
        _ => subject.wholes(&model, &[FIRST_PROMPT.min(context(&model))], FIRST_PROMPT, &mut Vec::new())?.pop(),
    };
    if subject != Subject::Decoder {
        session = subject.session(&model, whole.as_ref())?.0;
    }
    match whole.filter(|_| !subject.writes()) {
        Some(whole) => drop(whole.run(&mut whole.session())?),
        None => {
            let prompt = if subject.prompts() { FIRST_PROMPT.min(context(&model)) } else { 1 };
            greedy(&session.forward(&ids(prompt, 2), Rows::Last)?)?;
        }
    }
    report.first_token_seconds.push(start.elapsed().as_secs_f64());
    Ok(model)
}

/// What is measured, with its sessions, beside the parts of a report in their order.
struct Bench {
    wholes: Vec<(Whole, Session)>,
    /// For prompts.
    prompt: Session,
    /// One for each depth.
    texts: Vec<Session>,
    vocabulary: usize,
}

impl Bench {
    /// Everything that fits; what does not is noted.
    fn new(model: &Model, options: &BenchOptions, report: &mut Report) -> Result<Self> {
        let subject = Subject::of(model)?;
        let wholes = subject.wholes(model, &options.length, options.batch.max(1), &mut report.skipped)?;
        for whole in &wholes {
            let (seconds, share) = Default::default();
            let multiply_adds = whole.multiply_adds(model);
            report.encode.push(Encode { input: whole.input, seconds, multiply_adds, share });
        }
        let (mut prompt, beside) = subject.session(model, wholes.first())?;
        let mut texts = Vec::new();
        let mut vocabulary = 1;
        if subject.writes() && (subject.prompts() || !wholes.is_empty()) {
            vocabulary = prompt.forward(&ids(1, 2), Rows::Last)?.dims().last().copied().unwrap_or(1);
            let lengths = if subject.prompts() { options.prefill.as_slice() } else { &[] };
            for &tokens in lengths.iter().filter(|&&n| n > 0) {
                if fits(report, model, format!("prefill of {tokens}"), tokens) {
                    let multiply_adds = work::of_prompt(model, tokens, &beside).multiply_adds as f64 / tokens as f64;
                    report.prefill.push(Prefill { tokens, multiply_adds, ..Prefill::default() });
                }
            }
            if prompt.is_stateless() && options.decode > 0 {
                report.skipped.push("decode: the graph keeps no cache, so that a token is a whole prompt".into());
            } else if options.decode > 0 {
                for &depth in &options.depth {
                    let (begun, tokens) = (depth.max(1), options.decode);
                    let what = format!("decode of {tokens} at depth {depth}");
                    if fits(report, model, what, begun.saturating_add(tokens)) {
                        let bytes = work::of_decoding(model, begun, tokens, &beside).bytes as f64 / tokens as f64;
                        report.decode.push(Decode { depth, tokens, bytes, ..Decode::default() });
                        texts.push(subject.session(model, wholes.first())?.0);
                    }
                }
            }
        }
        if subject == Subject::Source && wholes.is_empty() && options.decode > 0 {
            report.skipped.push("decode: needs a source of a length that the model takes".into());
        }
        let with_session = |whole: Whole| {
            let session = whole.session();
            (whole, session)
        };
        Ok(Bench { wholes: wholes.into_iter().map(with_session).collect(), prompt, texts, vocabulary })
    }

    fn warm_up(&mut self, report: &Report, progress: &mut dyn Progress) -> Result<()> {
        for (whole, session) in &mut self.wholes {
            part(progress, "warm-up")?;
            whole.run(session)?;
        }
        for prefill in &report.prefill {
            part(progress, "warm-up")?;
            self.prompt.reset();
            self.prompt.forward(&ids(prefill.tokens, self.vocabulary), Rows::Last)?;
        }
        for (text, decode) in self.texts.iter_mut().zip(&report.decode) {
            part(progress, "warm-up")?;
            text.forward(&ids(decode.depth.max(1), self.vocabulary), Rows::Last)?;
            decode_rate(text, decode, 1.min(decode.tokens), self.vocabulary)?;
        }
        Ok(())
    }

    /// Everything once more.
    fn measure(&mut self, report: &mut Report, limits: &mut Limits<'_>, progress: &mut dyn Progress) -> Result<()> {
        for ((whole, session), encode) in self.wholes.iter_mut().zip(&mut report.encode) {
            part(progress, &encode.input.to_string())?;
            let before = limits.multiply_adds();
            let start = Instant::now();
            whole.run(session)?;
            let seconds = start.elapsed().as_secs_f64();
            let limit = (before + limits.multiply_adds()) / 2.0;
            encode.seconds.push(seconds);
            encode.share.push(encode.multiply_adds / seconds / limit);
        }
        for prefill in &mut report.prefill {
            part(progress, &format!("prefill of {}", prefill.tokens))?;
            let prompt = ids(prefill.tokens, self.vocabulary);
            self.prompt.reset();
            let before = limits.multiply_adds();
            let start = Instant::now();
            self.prompt.forward(&prompt, Rows::Last)?;
            let rate = prefill.tokens as f64 / start.elapsed().as_secs_f64();
            let limit = (before + limits.multiply_adds()) / 2.0;
            prefill.tokens_per_second.push(rate);
            prefill.share.push(rate * prefill.multiply_adds / limit);
        }
        for (text, decode) in self.texts.iter_mut().zip(&mut report.decode) {
            part(progress, &format!("decode at depth {}", decode.depth))?;
            let before = limits.bytes();
            let rate = decode_rate(text, decode, decode.tokens, self.vocabulary)?;
            let limit = (before + limits.bytes()) / 2.0;
            decode.tokens_per_second.push(rate);
            decode.share.push(rate * decode.bytes / limit);
        }
        // A window takes its encoder once and then its tokens.
        if let (Some(window), Some(decode)) = (report.encode.first(), report.decode.first())
            && let Input::Window { seconds } = window.input
            && let (Some(own), Some(rate)) = (window.seconds.values().last(), decode.tokens_per_second.values().last())
        {
            report.real_time.push(seconds / (own + decode.tokens as f64 / rate));
        }
        Ok(())
    }
}

/// Whether the context holds so many tokens; else it is noted.
fn fits(report: &mut Report, model: &Model, what: String, tokens: usize) -> bool {
    let context = context(model);
    if tokens > context {
        let limit = match context {
            LONGEST => "no text is measured that is longer than",
            _ => "the context holds",
        };
        report.skipped.push(format!("{what}: needs {tokens} tokens, and {limit} {context}"));
    }
    tokens <= context
}

/// Tokens per second of the first so many tokens of a measurement of decoding; choosing them is not counted.
fn decode_rate(text: &mut Session, decode: &Decode, tokens: usize, vocabulary: usize) -> Result<f64> {
    let begun = decode.depth.max(1);
    text.truncate(begun - 1);
    let last = ids(begun, vocabulary).pop().unwrap_or(0);
    let mut logits = text.forward(&[last], Rows::Last)?;
    let mut seconds = 0.0;
    for _ in 0..tokens {
        let next = greedy(&logits)?;
        let start = Instant::now();
        logits = text.forward(&[next], Rows::Last)?;
        seconds += start.elapsed().as_secs_f64();
    }
    Ok(tokens as f64 / seconds)
}

/// Token ids without meaning, the same each time: the high bits of a linear congruential sequence.
pub fn ids(count: usize, vocabulary: usize) -> Vec<u32> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocabulary.max(1) as u64) as u32
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The likeliest token of one row of logits; the first of equals.
fn greedy(logits: &Tensor) -> Result<u32> {
    let row = logits.flatten_all().and_then(|l| l.to_vec1::<f32>()).map_err(ExecutorError::from)?;
    let best =
        row.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (i, &v)| if v > best.1 { (i, v) } else { best });
    Ok(best.0 as u32)
}
