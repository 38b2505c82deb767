//! `run --audio`: what is said in a sound.

use super::times::Times;
use crate::options::{SamplingOptions, warn_of_packed};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tallow::{Error, Model, Segment, Sound, TranscribeOptions};

/// From how many seconds of sound on a bar shows how far the work is.
const LONG: f64 = 30.0;

/// Endings of files of sound.
const SOUNDS: [&str; 3] = ["wav", "flac", "mp3"];

/// What a model of speech is told.
#[derive(Args)]
#[command(next_help_heading = "Speech")]
pub struct SpeechOptions {
    /// Write what is said in this file, WAV, FLAC or MP3, by a model of speech.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["raw", "system", "stop", "ignore_end", "beams", "input", "output"])]
    audio: Option<PathBuf>,
    /// The language of the sound, as `de` or `german`; by default what the model hears.
    #[arg(long, value_name = "LANGUAGE", requires = "audio")]
    language: Option<String>,
    /// What to write; by default what the model's config says.
    #[arg(long, value_enum, requires = "audio")]
    task: Option<Task>,
    /// Let the model write times, and show them. A sound longer than 30 seconds has them anyway.
    #[arg(long, requires = "audio")]
    timestamps: bool,
}

/// What to write of a sound.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Task {
    /// What is said, in its own language.
    Transcribe,
    /// What is said, in English.
    Translate,
}

impl From<Task> for tallow::Task {
    fn from(task: Task) -> Self {
        match task {
            Task::Transcribe => tallow::Task::Transcribe,
            Task::Translate => tallow::Task::Translate,
        }
    }
}

/// Options of the command that hold for speech too.
pub struct Common {
    /// Most tokens of a window.
    pub max_tokens: Option<usize>,
    /// Whether one JSON object is wanted.
    pub json: bool,
    /// Seconds that loading took.
    pub load: f64,
}

impl SpeechOptions {
    /// Whether there is a sound.
    pub fn is_given(&self) -> bool {
        self.audio.is_some()
    }

    /// Refuses a second sound among the arguments.
    pub fn check_one(&self, arguments: &[String]) -> Result<()> {
        let is_sound = |text: &&String| {
            let end = Path::new(text).extension();
            end.is_some_and(|end| SOUNDS.iter().any(|sound| end.eq_ignore_ascii_case(sound)))
        };
        match arguments.iter().find(is_sound).filter(|_| self.is_given()) {
            Some(other) => bail!(Error::Usage(format!(
                "--audio takes one sound at a time, and {other} stands beside it; run the command once for each"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses what has no effect beside a sound.
    pub fn check(&self, prompt: Option<&str>, sampling: &SamplingOptions) -> Result<()> {
        if prompt.is_some() {
            bail!(Error::Usage("give a PROMPT or --audio, not both".into()));
        }
        if *sampling != SamplingOptions::default() {
            bail!(Error::Usage("with --audio the likeliest token is taken each time; leave out how to sample".into()));
        }
        Ok(())
    }

    /// Writes what is said in the file, segment by segment as they are found.
    pub fn run(&self, model: &Model, common: &Common, ui: &Ui) -> Result<ExitCode> {
        let Some(path) = &self.audio else { return Ok(ExitCode::SUCCESS) };
        let options = TranscribeOptions {
            language: self.language.clone(),
            task: self.task.map(Into::into),
            timestamps: self.timestamps.then_some(true),
            max_tokens: common.max_tokens,
        };
        let sound = ui::waiting(|| Sound::open(path))?;
        if let Some(damage) = sound.damage() {
            let read = sound.seconds();
            ui.warn(format!("{}: {damage}; {read:.2} s of sound were read", path.display()));
        }
        let started = Instant::now();
        let mut transcription = ui::waiting(|| model.transcription(&sound, &options))?;
        let bar = match sound.seconds() > LONG {
            true => ui.count_bar(sound.seconds().ceil() as u64, "seconds"),
            false => indicatif::ProgressBar::hidden(),
        };
        let mut segments: Vec<Segment> = Vec::new();
        while let Some(segment) = transcription.next() {
            let segment = segment?;
            bar.set_position(transcription.progress().0 as u64);
            if !common.json {
                bar.suspend(|| self.show(&segment, segments.is_empty()))?;
            }
            segments.push(segment);
            if ui::interrupted() {
                break;
            }
        }
        bar.finish_and_clear();
        let took = started.elapsed().as_secs_f64();
        let ended = match (ui::interrupted(), transcription.is_cut()) {
            (true, _) => "interrupted",
            (false, true) => "length",
            (false, false) => "end",
        };
        let mut out = std::io::stdout().lock();
        if common.json {
            let tokens: Vec<u32> = segments.iter().flat_map(|s| s.tokens.iter().copied()).collect();
            let parts = segments.iter().map(|s| {
                serde_json::json!({ "start": hundredths(s.start), "end": hundredths(s.end), "text": s.text, "tokens": s.tokens })
            });
            let value = serde_json::json!({
                "text": transcription.text(&tokens),
                "language": transcription.language(),
                "segments": parts.collect::<Vec<_>>(),
                "prompt": transcription.prompt(),
                "ended": ended,
                "sound_seconds": sound.seconds(),
                "damage": sound.damage(),
            });
            let times = Times { load: common.load, run: took };
            writeln!(out, "{}", times.add_to(value, model))?;
        } else if !self.timestamps {
            writeln!(out)?;
        }
        drop(out);
        warn_of_packed(model, ui);
        let mut line = format!(
            "load {:.2} s · {:.2} s of sound in {took:.2} s, {:.1} times as fast as spoken",
            common.load,
            sound.seconds(),
            sound.seconds() / took.max(1e-9)
        );
        if let Some(language) = transcription.language() {
            line.push_str(&format!(" · language {language}"));
        }
        if let Some(peak) = tallow::bench::peak_memory() {
            line.push_str(&format!(" · peak memory {}", ui::bytes(peak)));
        }
        ui.note(format!("{line} · ended by {ended}"));
        Ok(ExitCode::from(if ended == "interrupted" { 130 } else { 0 }))
    }

    /// A segment for people: a line with its times, or text that goes on.
    fn show(&self, segment: &Segment, first: bool) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let text = ui::printable(&segment.text);
        if self.timestamps {
            writeln!(out, "[{} → {}] {}", clock(segment.start), clock(segment.end), text.trim())?;
        } else {
            write!(out, "{}", if first { text.trim_start() } else { &text })?;
        }
        out.flush()
    }
}

/// Times are told in hundredths of a second.
fn hundredths(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// `01:02.50`, and from an hour on `01:00:02.50`.
fn clock(seconds: f64) -> String {
    let all = (seconds * 100.0).round().max(0.0) as u64;
    let (hours, minutes, seconds, rest) = (all / 360_000, all / 6000 % 60, all / 100 % 60, all % 100);
    let short = format!("{minutes:02}:{seconds:02}.{rest:02}");
    if hours > 0 { format!("{hours:02}:{short}") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_clocks() {
        assert_eq!(clock(1.2), "00:01.20");
        assert_eq!(clock(59.999), "01:00.00");
        assert_eq!(clock(3723.04), "01:02:03.04");
    }
}
