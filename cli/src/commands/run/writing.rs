//! Text that a model writes: from a prompt, from inputs, from pictures, or by a search.

use super::Run;
use super::times::Times;
use crate::options::{packed_json, packed_report, warn_of_packed};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use tallow::picture::Picture;
use tallow::{BeamOptions, Ended, Error, GenerateOptions, Model, Tensor};

/// What a text goes on from beside a prompt.
#[derive(Clone, Copy)]
pub enum Given<'a> {
    Nothing,
    /// Inputs of a program.
    Inputs(&'a [(String, Tensor)]),
    /// Pictures that the text is about.
    Pictures(&'a [Picture]),
}

impl Run {
    /// The search that is asked for, or that the model is meant for where nothing else is.
    pub(super) fn search(&self, model: &Model) -> Option<BeamOptions> {
        let own = model.driver().and_then(|driver| driver.beams);
        let otherwise = self.sampling.is_given() || self.system.is_some() || !self.stop.is_empty() || self.ignore_end;
        match self.beams {
            Some(1) => None,
            Some(beams) => Some(BeamOptions { beams, ..own.unwrap_or_default() }),
            None => own.filter(|_| !otherwise),
        }
    }

    /// The likeliest text of a beam search, behind a prompt or of the inputs that are given.
    pub(super) fn run_search(
        &self,
        model: &Model,
        given: Given<'_>,
        prompt: &str,
        beams: BeamOptions,
        load: f64,
        ui: &Ui,
    ) -> Result<ExitCode> {
        if self.sampling.samples() {
            bail!(Error::Usage(
                "a search takes no samples; leave out --beams, or --temperature, --top-k, --top-p, --min-p and --seed"
                    .into()
            ));
        }
        let options = GenerateOptions {
            sampling: Some(self.sampling.over(model)?),
            max_tokens: self.max_tokens,
            source_language: self.source_language.clone(),
            target_language: self.target_language.clone(),
            ..GenerateOptions::default()
        };
        let started = Instant::now();
        let shown = ui.wait(&format!("searching with {} beams", beams.beams));
        let (text, ids) = ui::waiting(|| match given {
            Given::Inputs(inputs) => model.session()?.search_from(inputs, beams, &options),
            Given::Nothing | Given::Pictures(_) => model.session()?.search(prompt, beams, &options),
        })?;
        shown.finish_and_clear();
        let times = Times { load, run: started.elapsed().as_secs_f64() };
        let count = ui::count(ids.len(), "token");
        let shown = match self.json {
            true => {
                let value = serde_json::json!({ "text": text, "ids": ids, "beams": beams.beams });
                times.add_to(value, model).to_string()
            }
            false => text,
        };
        ui::answer(&format!("{shown}\n"))?;
        ui.note(times.line(&format!("{} beams, {count}", beams.beams)));
        Ok(ExitCode::SUCCESS)
    }

    /// Text that goes on from a prompt, from the inputs of a program, or from pictures.
    pub(super) fn run_text(
        &self,
        model: &Model,
        given: Given<'_>,
        prompt: Option<&str>,
        load: f64,
        ui: &Ui,
    ) -> Result<ExitCode> {
        let sampling = self.sampling.over(model)?;
        let options = GenerateOptions {
            sampling: Some(sampling),
            max_tokens: self.max_tokens.or(model.driver().and_then(|d| d.length).is_none().then_some(1024)),
            stop: self.stop.clone(),
            raw: self.raw,
            ignore_end: self.ignore_end,
            source_language: self.source_language.clone(),
            target_language: self.target_language.clone(),
        };
        let mut session = model.session()?;
        let question = prompt.unwrap_or_default();
        let conversation = |system: &str, pictures: usize| {
            [tallow::Message::new("system", system), tallow::Message::new("user", question).with_pictures(pictures)]
        };
        let mut generation = match (given, &self.system) {
            (Given::Inputs(inputs), _) => session.generate_from(inputs, prompt, &options)?,
            (Given::Pictures(pictures), Some(system)) => {
                session.reply_about(pictures, &conversation(system, pictures.len()), &options)?
            }
            (Given::Pictures(pictures), None) => session.generate_about(pictures, question, &options)?,
            (Given::Nothing, Some(system)) => session.reply(&conversation(system, 0), &options)?,
            (Given::Nothing, None) => session.generate_with(question, &options)?,
        };
        let mut out = std::io::stdout().lock();
        let mut text = String::new();
        for piece in generation.by_ref() {
            let piece = piece?;
            if !self.json {
                out.write_all(piece.as_bytes())?;
                out.flush()?;
            }
            text.push_str(&piece);
            if ui::interrupted() {
                break;
            }
        }
        let statistics = generation.statistics();
        let ended = match generation.ended() {
            Some(Ended::Stop) => "stop",
            Some(Ended::Length) => "length",
            Some(Ended::Context) => "context",
            None => "interrupted",
        };
        if self.json {
            let value = serde_json::json!({
                "text": text,
                "ids": generation.ids(),
                "ended": ended,
                "seed": sampling.seed,
                "prompt_tokens": statistics.prompt_tokens,
                "tokens": statistics.tokens,
                "load_seconds": load,
                "prefill_seconds": statistics.prefill.as_secs_f64(),
                "prefill_tokens_per_second": statistics.prefill_rate(),
                "decode_seconds": statistics.decode.as_secs_f64(),
                "decode_tokens_per_second": statistics.decode_rate(),
                "threads": model.program().threads(),
                "packed": packed_json(&packed_report(model)),
                "peak_memory_bytes": tallow::bench::peak_memory(),
            });
            writeln!(out, "{value}")?;
        } else if !text.ends_with('\n') {
            writeln!(out)?;
        }
        drop(out);
        warn_of_packed(model, ui);
        let mut line = format!(
            "load {:.2} s · prefill {} tokens, {:.1} tokens/s · decode {} tokens, {:.1} tokens/s",
            load,
            statistics.prompt_tokens,
            statistics.prefill_rate(),
            statistics.tokens,
            statistics.decode_rate(),
        );
        if let Some(peak) = tallow::bench::peak_memory() {
            line.push_str(&format!(" · peak memory {}", ui::bytes(peak)));
        }
        if sampling.temperature > 0.0 {
            line.push_str(&format!(" · seed {}", sampling.seed));
        }
        ui.note(format!("{line} · ended by {ended}"));
        Ok(ExitCode::from(if ended == "interrupted" { 130 } else { 0 }))
    }
}
