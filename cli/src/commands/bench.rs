//! `tallow bench`: how fast a model is here, beside what the machine allows.

use crate::options::{LoadOptions, at_least_one, packed_json};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::bench::{BenchOptions, Input, Measurements, Progress, Report, Subject, run};

/// Measure how fast a model is, beside what the machine allows.
///
/// MODEL is a .model file, a GGUF file or a Hugging Face folder (imported once into the cache); without it the
/// storyteller is measured. Of a model that continues texts these are prompts and tokens after them; of others texts,
/// pictures, or a window of sound, and the tokens that are written of them. Everything is measured several times, and the
/// memory bandwidth and the arithmetic peak in between. Other programs that run make all figures worse.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow bench\n  \
    tallow bench qwen2.5-coder-0.5b.gguf --threads 2 --repetitions 10\n  \
    tallow bench all-MiniLM-L6-v2 --length 16,128 --batch 1024\n  \
    tallow bench some.model --prefill 16,1024 --depth 0,8000 --json > bench.json")]
pub struct Bench {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Measure everything so often.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
    repetitions: usize,
    /// Tokens of the prompts; 0 leaves them out [default: 64,512]
    #[arg(long, value_delimiter = ',', value_name = "N,N", value_parser = length)]
    prefill: Option<Vec<usize>>,
    /// Tokens of the texts that an encoder reads, or of those that an encoder-decoder translates; 0 leaves them out
    /// [default: 32,256]
    #[arg(long, value_delimiter = ',', value_name = "N,N", value_parser = length)]
    length: Option<Vec<usize>>,
    /// Run texts of an encoder together that have about so many tokens [default: 512]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    batch: Option<usize>,
    /// Tokens to generate; 0 leaves it out [default: 128]
    #[arg(long, value_name = "N")]
    decode: Option<usize>,
    /// Tokens in the cache before generating [default: 0,2048]
    #[arg(long, value_delimiter = ',', value_name = "N,N", value_parser = length)]
    depth: Option<Vec<usize>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadOptions,
}

/// A number of a list.
fn length(text: &str) -> std::result::Result<usize, String> {
    match text.trim() {
        "" => Err("a number is missing; give one or more with commas between, as in 64,512".into()),
        number => number.parse().map_err(|e| format!("{e}")),
    }
}

impl Bench {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let mut opener = self.load.opener(self.model.as_deref(), ui)?;
        let given = [
            ("--prefill", self.prefill.is_some(), Subject::prompts as fn(Subject) -> bool),
            ("--length", self.length.is_some(), Subject::reads_texts),
            ("--batch", self.batch.is_some(), Subject::joins_texts),
            ("--decode", self.decode.is_some(), Subject::writes),
            ("--depth", self.depth.is_some(), Subject::writes),
        ];
        let usual = BenchOptions::default();
        let options = BenchOptions {
            repetitions: self.repetitions,
            prefill: self.prefill.unwrap_or(usual.prefill),
            length: self.length.unwrap_or(usual.length),
            batch: self.batch.unwrap_or(usual.batch),
            decode: self.decode.unwrap_or(usual.decode),
            depth: self.depth.unwrap_or(usual.depth),
            memory: usual.memory,
        };
        let mut idle: Option<Vec<&str>> = None;
        let mut open = || {
            let model = opener()?;
            if idle.is_none() {
                let subject = Subject::of(&model)?;
                let without = given.iter().filter(|(_, given, takes)| *given && !takes(subject));
                idle = Some(without.map(|(name, ..)| *name).collect());
            }
            Ok(model)
        };
        let mut bar = Bar { ui, bar: ProgressBar::hidden() };
        let report = run(&mut open, &options, &mut bar);
        bar.bar.finish_and_clear();
        let report = report?;
        idle.iter().flatten().for_each(|name| ui.warn(format!("{name} has no effect on this kind of model")));
        report.packed.warnings.iter().for_each(|w| ui.warn(w));
        if self.json {
            let mut json = report.json();
            json["packed"] = packed_json(&report.packed);
            ui::answer(&format!("{json}\n"))?;
        } else {
            ui::answer(&text(&report))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct Bar<'a> {
    ui: &'a Ui,
    bar: ProgressBar,
}

impl Progress for Bar<'_> {
    fn start(&mut self, parts: usize) {
        self.bar.finish_and_clear();
        self.bar = self.ui.count_bar(parts as u64, "measuring");
    }

    fn part(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
    }

    fn cancelled(&self) -> bool {
        ui::interrupted()
    }
}

/// The report as a table.
fn text(report: &Report) -> String {
    let processor = report.processor.as_deref().unwrap_or("processor unknown");
    let engine = if report.reference { "reference engine" } else { report.instruction_set };
    let mut out = format!(
        "{} · weights {} · {processor} · {} · {engine} · {} cache · {}\n\n",
        report.model,
        ui::bytes(report.weight_bytes),
        ui::count(report.threads, "thread"),
        report.cache.name(),
        ui::count(report.repetitions, "repetition")
    );
    let mut rows: Vec<Vec<String>> =
        vec![["what", "unit", "min", "median", "max", "share of limit"].map(str::to_owned).to_vec()];
    let mut row =
        |what: String, unit: &str, values: &Measurements, scale: f64, share: Option<(&Measurements, &str)>| {
            let share = share.map(|(share, of)| format!("{:.0} % of {of}", share.median() * 100.0));
            let cells = [values.min(), values.median(), values.max()].map(|v| number(v * scale));
            let mut row = vec![what, unit.to_owned()];
            row.extend(cells);
            row.extend(share);
            rows.push(row);
        };
    row("load".into(), "ms", &report.load_seconds, 1e3, None);
    let first = if report.writes { "first token" } else { "first result" };
    row(first.into(), "ms", &report.first_token_seconds, 1e3, None);
    for e in &report.encode {
        let share = (e.multiply_adds > 0.0).then_some((&e.share, "peak"));
        let rates = e.rates();
        if !matches!(e.input, Input::Texts { .. } | Input::Source { .. }) {
            row(e.input.to_string(), "ms", &e.seconds, 1e3, share);
        }
        for (n, (what, rate)) in rates.iter().enumerate() {
            let share = share.filter(|_| n == rates.len() - 1 && e.input.tokens().is_some());
            row(e.input.to_string(), &format!("{what}/s"), rate, 1.0, share);
        }
    }
    for p in &report.prefill {
        let share = (p.multiply_adds > 0.0).then_some((&p.share, "peak"));
        row(format!("prefill of {}", p.tokens), "tokens/s", &p.tokens_per_second, 1.0, share);
    }
    for d in &report.decode {
        let share = (d.bytes > 0.0).then_some((&d.share, "bandwidth"));
        row(format!("decode of {} at depth {}", d.tokens, d.depth), "tokens/s", &d.tokens_per_second, 1.0, share);
    }
    if let (Some(decode), false) = (report.decode.first(), report.real_time.values().is_empty()) {
        let what = format!("real-time factor, {} tokens a window", decode.tokens);
        row(what, "s/s", &report.real_time, 1.0, None);
    }
    if !report.bandwidth.values().is_empty() {
        row("memory bandwidth".into(), "GB/s", &report.bandwidth, 1e-9, None);
    }
    if !report.peak.values().is_empty() {
        row(format!("arithmetic peak ({})", report.instruction), "GMAC/s", &report.peak, 1e-9, None);
    }
    out.push_str(&ui::table(&rows));
    out.push('\n');
    if !report.prefill.is_empty() || !report.encode.is_empty() {
        let tiles = if report.instruction_set == "amx" { "; kernels use amx too, which can exceed it" } else { "" };
        out.push_str(&format!("the peak is the rate of {}{tiles}\n", report.instruction));
    }
    for decode in &report.decode {
        out.push_str(&format!("a token reads {} at depth {}\n", ui::bytes(decode.bytes as u64), decode.depth));
    }
    match report.peak_memory {
        Some(peak) => out.push_str(&format!("peak memory {}\n", ui::bytes(peak))),
        None => out.push_str("peak memory unknown on this system\n"),
    }
    report.skipped.iter().for_each(|skipped| out.push_str(&format!("skipped: {skipped}\n")));
    out
}

/// Four digits or so.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_more() {
        assert_eq!([0.1234, 9.876, 12.34, 123.4, 12345.6].map(number), ["0.12", "9.88", "12.3", "123", "12346"]);
    }
}
