//! Measuring: how fast a model loads, reads prompts and continues them here, beside what the machine allows.
//!
//! Speeds go up and down on a shared machine, so everything is measured several times, and the limits between the
//! measurements: a share compares a rate with the limit just before and just after it.

mod profile;
mod report;
mod statistics;
mod trace;
mod work;

pub use profile::{Line, Phase, Profile, ProfileOptions, profile};
pub use report::{Decode, Prefill, Report};
pub use statistics::Measurements;
pub use work::{Call, Work, of_plan, of_step};

use crate::{Error, Model, Result};
use std::time::Instant;
use tallow_executor::kernels::Team;
use tallow_executor::kernels::machine::{self, Dot, Memory};
use tallow_executor::{CandleError, ExecutorError, Rows, Session, Tensor};
use tallow_ir::POS;

/// Tokens of the prompt of the time to the first token.
const FIRST_PROMPT: usize = 8;
/// The longest text that is measured, also where the model sets no limit: ids and caches take memory for each token.
const LONGEST: usize = 1 << 24;

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// How often; at least once.
    pub repetitions: usize,
    /// Lengths of prompts.
    pub prefill: Vec<usize>,
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
/// A model that continues no text from token ids alone; those of opening and running it; being cancelled.
pub fn run(
    open: &mut dyn FnMut() -> Result<Model>,
    options: &BenchOptions,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let repetitions = options.repetitions.max(1);
    let mut report = Report { repetitions, ..Report::default() };
    let part = |progress: &mut dyn Progress, what: &str| match progress.cancelled() {
        true => Err(Error::Usage("measuring was interrupted".into())),
        false => {
            progress.part(what);
            Ok(())
        }
    };
    progress.start(repetitions);
    let mut opened: Option<Model> = None;
    for _ in 0..repetitions {
        part(progress, "load")?;
        // Two of them at once would not fit everywhere, and would count as peak memory.
        if let Some(model) = opened.take() {
            report.warnings_of(&model);
        }
        let start = Instant::now();
        let model = open()?;
        continues_ids(&model)?;
        // A model without a tokenizer is ready without one.
        let _ = model.tokenizer();
        let mut session = Session::new(model.program().clone());
        report.load_seconds.push(start.elapsed().as_secs_f64());
        let prompt = FIRST_PROMPT.min(context(&model));
        greedy(&session.forward(&ids(prompt, 2), Rows::Last)?)?;
        report.first_token_seconds.push(start.elapsed().as_secs_f64());
        opened = Some(model);
    }
    let Some(model) = opened else { return Ok(report) };
    let program = model.program();
    report.describe(&model);
    let mut session = Session::new(program.clone());
    let vocabulary = session.forward(&ids(1, 2), Rows::Last)?.dims().last().copied().unwrap_or(1);
    let context = context(&model);
    let fits = |report: &mut Report, what: String, tokens: usize| {
        if tokens > context {
            let limit = match program.options().context {
                Some(asked) if asked <= LONGEST => "the context holds",
                _ => "no text is measured that is longer than",
            };
            report.skipped.push(format!("{what}: needs {tokens} tokens, and {limit} {context}"));
        }
        tokens <= context
    };
    for &tokens in options.prefill.iter().filter(|&&n| n > 0) {
        if fits(&mut report, format!("prefill of {tokens}"), tokens) {
            let multiply_adds = work::of_prompt(&model, tokens).multiply_adds as f64 / tokens as f64;
            report.prefill.push(Prefill { tokens, multiply_adds, ..Prefill::default() });
        }
    }
    let mut texts = Vec::new();
    if session.is_stateless() && options.decode > 0 {
        report.skipped.push("decode: the graph keeps no cache, so that a token is a whole prompt".into());
    } else if options.decode > 0 {
        for &depth in &options.depth {
            let begun = depth.max(1);
            if fits(
                &mut report,
                format!("decode of {} at depth {depth}", options.decode),
                begun.saturating_add(options.decode),
            ) {
                let bytes = work::of_decoding(&model, begun, options.decode).bytes as f64 / options.decode as f64;
                report.decode.push(Decode { depth, tokens: options.decode, bytes, ..Decode::default() });
                texts.push(Session::new(program.clone()));
            }
        }
    }
    // Once unmeasured: then every page is there, and the memory that running takes is known before more is taken here.
    progress.start(repetitions.saturating_add(1).saturating_mul(report.prefill.len() + report.decode.len()));
    for prefill in &report.prefill {
        part(progress, "warm-up")?;
        session.reset();
        session.forward(&ids(prefill.tokens, vocabulary), Rows::Last)?;
    }
    for (text, decode) in texts.iter_mut().zip(&report.decode) {
        part(progress, "warm-up")?;
        text.forward(&ids(decode.depth.max(1), vocabulary), Rows::Last)?;
        decode_rate(text, decode, 1.min(decode.tokens), vocabulary)?;
    }
    report.peak_memory = peak_memory();
    let team = program.team();
    let mut limits = Limits { memory: None, team, bandwidth: Measurements::default(), peak: Measurements::default() };
    if !report.decode.is_empty() {
        limits.take(options.memory)?;
    }
    for _ in 0..repetitions {
        for prefill in &mut report.prefill {
            part(progress, &format!("prefill of {}", prefill.tokens))?;
            let prompt = ids(prefill.tokens, vocabulary);
            session.reset();
            let before = limits.multiply_adds();
            let start = Instant::now();
            session.forward(&prompt, Rows::Last)?;
            let rate = prefill.tokens as f64 / start.elapsed().as_secs_f64();
            let limit = (before + limits.multiply_adds()) / 2.0;
            prefill.tokens_per_second.push(rate);
            prefill.share.push(rate * prefill.multiply_adds / limit);
        }
        for (text, decode) in texts.iter_mut().zip(&mut report.decode) {
            part(progress, &format!("decode at depth {}", decode.depth))?;
            let before = limits.bytes();
            let rate = decode_rate(text, decode, decode.tokens, vocabulary)?;
            let limit = (before + limits.bytes()) / 2.0;
            decode.tokens_per_second.push(rate);
            decode.share.push(rate * decode.bytes / limit);
        }
    }
    report.bandwidth = limits.bandwidth;
    report.peak = limits.peak;
    report.warnings_of(&model);
    Ok(report)
}

/// The most tokens of a text that is measured.
fn context(model: &Model) -> usize {
    model.program().options().context.unwrap_or(LONGEST).min(LONGEST)
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

/// The limits of the machine, measured whenever asked.
struct Limits<'a> {
    /// What is read; none where nothing is decoded.
    memory: Option<Memory>,
    team: &'a Team,
    bandwidth: Measurements,
    peak: Measurements,
}

impl Limits<'_> {
    fn take(&mut self, bytes: usize) -> Result<()> {
        let fault = |source: std::io::Error| {
            ExecutorError::Tensor(CandleError::Msg(format!(
                "cannot take {bytes} bytes to measure the memory bandwidth: {source}; end other programs, or leave \
                 decoding out (--decode 0)"
            )))
        };
        self.memory = Some(Memory::new(bytes, self.team).map_err(fault)?);
        Ok(())
    }

    /// Bytes per second.
    fn bytes(&mut self) -> f64 {
        let rate = self.memory.as_ref().map_or(f64::NAN, |memory| memory.read_rate(self.team));
        self.bandwidth.push(rate);
        rate
    }

    /// Multiply-adds per second.
    fn multiply_adds(&mut self) -> f64 {
        let rate = machine::multiply_add_rate(self.team);
        self.peak.push(rate);
        rate
    }
}

/// Whether token ids are all that the model needs to continue a text.
///
/// # Errors
/// One that needs more, or continues none, with what to do.
pub fn continues_ids(model: &Model) -> Result<()> {
    model.takes_text()?;
    let plan = model.program().plan();
    let other = plan.inputs.iter().find(|i| i.name != "input_ids" && i.name != POS);
    let once = model.once().map(|once| once.signature());
    match (other, once) {
        (None, None) => Ok(()),
        (other, once) => Err(Error::Usage(format!(
            "{}: needs more than a text: {}; only models that take `input_ids` alone are measured. Run it on its inputs \
             (`tallow run MODEL --input NAME=FILE`), which prints how long it took",
            model.file().label(),
            once.unwrap_or_else(|| other.map_or_else(String::new, |i| format!("{}: {}", i.name, i.ty)))
        ))),
    }
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

/// The most memory that this process had resident, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The name that the processor gives itself, where the system tells.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The instruction that the peak is measured with.
fn instruction() -> &'static str {
    Dot::detect().name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        total: usize,
        begun: usize,
        limit: Option<usize>,
    }

    impl Progress for Seen {
        fn start(&mut self, parts: usize) {
            self.total += parts;
        }

        fn part(&mut self, _what: &str) {
            self.begun += 1;
        }

        fn cancelled(&self) -> bool {
            self.limit == Some(self.begun)
        }
    }

    fn small() -> BenchOptions {
        BenchOptions {
            repetitions: 2,
            prefill: vec![4, 1 << 40],
            decode: 2,
            depth: vec![0, 3, 1 << 40],
            memory: 1 << 16,
        }
    }

    #[test]
    fn everything_that_fits_is_measured_so_often() {
        let mut seen = Seen::default();
        let report = run(&mut Model::storyteller, &small(), &mut seen).unwrap();
        let counts = |m: &Measurements| m.values().len();
        assert_eq!([counts(&report.load_seconds), counts(&report.first_token_seconds)], [2, 2]);
        assert_eq!(report.prefill.iter().map(|p| (p.tokens, counts(&p.share))).collect::<Vec<_>>(), [(4, 2)]);
        assert_eq!(report.decode.iter().map(|d| (d.depth, counts(&d.share))).collect::<Vec<_>>(), [(0, 2), (3, 2)]);
        assert!(report.decode[1].bytes > report.decode[0].bytes, "a deeper text reads more of the cache");
        // The limits stand before and after each measurement.
        assert_eq!([counts(&report.bandwidth), counts(&report.peak)], [8, 4]);
        let skipped = report.skipped.join("\n");
        assert!(
            skipped.contains("prefill of 1099511627776") && skipped.contains("at depth 1099511627776"),
            "{skipped}"
        );
        assert_eq!(seen.begun, seen.total);
        assert!(report.load_seconds.max() <= report.first_token_seconds.max());
    }

    #[test]
    fn lengths_beyond_all_bounds_are_skipped() {
        let mut open = || {
            let mut options = crate::ModelOptions::default();
            options.program.context = Some(usize::MAX);
            Model::storyteller_with(&options)
        };
        let lengths = |decode: usize, n: usize| BenchOptions {
            repetitions: 1,
            prefill: vec![n],
            decode,
            depth: vec![n, 1],
            memory: 1 << 16,
        };
        for options in [lengths(usize::MAX, usize::MAX), lengths(usize::MAX, 1 << 40), lengths(1 << 40, usize::MAX)] {
            let report = run(&mut open, &options, &mut Seen::default()).unwrap();
            assert_eq!((report.prefill.len(), report.decode.len(), report.skipped.len()), (0, 0, 3), "{options:?}");
            assert!(report.skipped.iter().all(|s| s.contains("longer than 16777216")), "{:?}", report.skipped);
        }
    }

    #[test]
    fn what_a_token_reads_is_less_with_a_smaller_cache() {
        let read = |cache| {
            let mut options = crate::ModelOptions::default();
            options.program.cache = cache;
            let mut open = || Model::storyteller_with(&options);
            let report = run(&mut open, &small(), &mut Seen::default()).unwrap();
            assert_eq!(report.cache, cache);
            report.decode[1].bytes
        };
        use tallow_executor::CacheType::{F16, F32, Q8};
        let [exact, half, small] = [F32, F16, Q8].map(read);
        assert!(exact > half && half > small, "{exact} {half} {small}");
        // A value takes 4 bytes, 2, and 1 with two more for each 32: the matrices are the rest.
        assert!(((exact - half) * 15.0 - (half - small) * 32.0).abs() < 1e-3 * exact, "{exact} {half} {small}");
    }

    #[test]
    fn a_cancelled_measurement_is_an_error() {
        let mut seen = Seen { limit: Some(5), ..Seen::default() };
        assert!(run(&mut Model::storyteller, &small(), &mut seen).is_err());
        assert_eq!(seen.begun, 5);
    }

    #[test]
    fn ids_are_the_same_each_time_and_inside_the_vocabulary() {
        let many = ids(1000, 10);
        assert_eq!(many[..100], ids(100, 10));
        assert!((0..10).all(|id| many.contains(&id)) && many.iter().all(|&id| id < 10));
        assert_eq!(ids(3, 0), [0, 0, 0]);
    }
}
