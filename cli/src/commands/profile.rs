//! `tallow profile`: where the time of a run goes.

use crate::commands::tools::refuse_existing;
use crate::options::{LoadOptions, at_least_one, packed_json, packed_report, warn_of_packed};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::Error;
use tallow::bench::{Line, Phase, ProfileOptions, Subject, profile, prompt_ids};
use tallow::format::AtomicFile;

/// Show where the time of a prompt and of the tokens after it goes; or that of texts, a picture or a window of sound.
///
/// MODEL is a .model file, a GGUF file or a Hugging Face folder (imported once into the cache); without it the
/// storyteller is measured. The run is made twice and the second one is shown: by operation and by place in the graph,
/// the prompt, or what the model reads at once, and the tokens after it apart. GB/s are bytes of encoded matrices and of cached keys and values, GMAC/s
/// products with matrices, of convolutions and of attention.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow profile qwen2.5-coder-0.5b.gguf\n  \
    tallow profile some.model \"Once upon a time\" --decode 64 --trace trace.json")]
pub struct Profile {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The prompt, taken as it is, or the text that an encoder reads; by default tokens without meaning.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Tokens of the prompt, or of each text that an encoder reads, where none is given; by default 64, or as many as an
    /// encoder takes.
    #[arg(long, value_name = "N", conflicts_with = "prompt", value_parser = at_least_one)]
    tokens: Option<usize>,
    /// Tokens to generate; 0 leaves it out [default: 16]
    #[arg(long, value_name = "N")]
    decode: Option<usize>,
    /// Lines of each table; 0 shows all.
    #[arg(long, default_value_t = 20, value_name = "N")]
    lines: usize,
    /// Print one JSON object, with all lines.
    #[arg(long)]
    json: bool,
    /// Write every step as an event to this file, for https://ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Replace a trace that exists.
    #[arg(long, requires = "trace")]
    force: bool,
    #[command(flatten)]
    load: LoadOptions,
}

impl Profile {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        // A path that cannot be written costs no run.
        if let Some(path) = &self.trace {
            self.check_trace(path)?;
        }
        let model = self.load.load(self.model.as_deref(), ui)?;
        if let Some((trace, file)) = self.trace.as_deref().zip(model.file().container().path()) {
            refuse_model(trace, file)?;
        }
        let subject = Subject::of(&model)?;
        if self.decode.is_some() && !subject.writes() {
            ui.warn("--decode has no effect on this kind of model");
        }
        let prompt = match &self.prompt {
            Some(text) => prompt_ids(&model, text)?,
            None => Vec::new(),
        };
        if self.prompt.is_some() && prompt.is_empty() {
            bail!(Error::Usage("the prompt has no tokens; give a longer one, or leave it out (--tokens)".into()));
        }
        let options = ProfileOptions {
            prompt,
            tokens: self.tokens.unwrap_or(ProfileOptions::default().tokens),
            fewer: self.tokens.is_none(),
            decode: self.decode.unwrap_or(16),
        };
        let found = profile(&model, &options, &ui::interrupted)?;
        warn_of_packed(&model, ui);
        if let Some(path) = &self.trace {
            // A trace that exists stays until the new one is whole.
            let mut file = trace_file(path)?;
            let written = serde_json::to_writer(&mut file, &found.trace());
            written.map_err(|e| Error::Format(file.error("cannot write the trace", e.into())))?;
            file.commit().map_err(Error::Format)?;
            ui.note(format!("wrote {}: open it at https://ui.perfetto.dev", path.display()));
        }
        if self.json {
            let mut json = found.json();
            json["packed"] = packed_json(&packed_report(&model));
            ui::answer(&format!("{json}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let phases: Vec<String> = found.phases.iter().map(|phase| self.text(phase)).collect();
        ui::answer(&phases.join("\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whether a trace can be written here; nothing is left behind.
    fn check_trace(&self, path: &Path) -> Result<()> {
        refuse_existing(path, self.force)?;
        if let Some(source) = &self.model {
            refuse_model(path, source)?;
        }
        trace_file(path).map(drop)
    }

    /// A phase as tables.
    fn text(&self, phase: &Phase) -> String {
        let mut out = phase.name.to_owned();
        if let Some(input) = phase.input {
            out.push_str(&format!(" · {input}"));
        }
        if phase.tokens > 0 {
            out.push_str(&format!(" · {}", ui::count(phase.tokens, "token")));
        }
        out.push_str(&format!(" in {}", milliseconds(phase.seconds)));
        if phase.tokens > 0 {
            out.push_str(&format!(" · {:.1} tokens/s", phase.tokens as f64 / phase.seconds.max(1e-9)));
        }
        out.push_str(&format!(" · {:.2} ms outside of steps\n", phase.outside * 1e3));
        for (what, lines) in [("operation", &phase.operations), ("place", &phase.places)] {
            out.push('\n');
            out.push_str(&self.table(what, lines));
        }
        out
    }

    fn table(&self, what: &str, lines: &[Line]) -> String {
        let head = ["ms", "share", "calls", "µs a call", "GB/s", "GMAC/s", what];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let shown = if self.lines == 0 { lines.len() } else { self.lines.min(lines.len()) };
        for line in &lines[..shown] {
            let rate = |rate: Option<f64>| rate.map_or_else(String::new, |r| format!("{:.1}", r / 1e9));
            rows.push(vec![
                format!("{:.2}", line.seconds * 1e3),
                format!("{:.1} %", line.share * 100.0),
                line.calls.to_string(),
                format!("{:.1}", line.seconds * 1e6 / line.calls.max(1) as f64),
                rate(line.bytes_per_second()),
                rate(line.multiply_adds_per_second()),
                ui::printable(&line.name).into_owned(),
            ]);
        }
        let mut table = ui::table(&rows);
        if shown < lines.len() {
            let rest: f64 = lines[shown..].iter().map(|l| l.seconds).sum();
            table.push_str(&format!("and {} more, {}\n", lines.len() - shown, milliseconds(rest)));
        }
        table
    }
}

/// A file that takes the place of the trace once it is whole.
fn trace_file(path: &Path) -> Result<AtomicFile> {
    Ok(AtomicFile::create(path).map_err(|e| Error::Usage(format!("--trace: {e}")))?)
}

/// A trace takes the place of no model: what is measured is never changed, `--force` or not.
fn refuse_model(trace: &Path, source: &Path) -> Result<()> {
    let (Ok(source), Ok(trace)) = (source.canonicalize(), trace.canonicalize()) else { return Ok(()) };
    if trace == source || source.is_dir() && trace.starts_with(source) {
        bail!(Error::Usage(format!("{} belongs to the model; give another name with --trace", trace.display())));
    }
    Ok(())
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}
