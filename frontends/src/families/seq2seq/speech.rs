//! What turning sound into text needs beside the graphs: the spectrogram, and the tokens that tell languages, tasks and
//! times.

use crate::families::{FamilyError, Settings};
use tallow_ir::ops::{MelLog, MelScale};
use tallow_ir::{Dim, Graph, IrError, Op, Shape, TensorType};

/// Settings of a model that hears, as `config.json` and `generation_config.json` of whisper have them.
#[derive(Clone, Debug, PartialEq)]
pub struct Speech {
    /// Bands of the spectrogram.
    pub mels: u32,
    /// Frames that the encoder takes at once.
    pub frames: u32,
    /// The token that every text begins with.
    pub start: u32,
    /// The token that ends a text.
    pub end: u32,
    /// What old configs put behind it; `None` for a language that is to be found out.
    pub forced: Vec<Option<u32>>,
    /// Tokens of languages, as `<|en|>`.
    pub languages: Vec<(String, u32)>,
    /// Tokens of tasks, as `transcribe`.
    pub tasks: Vec<(String, u32)>,
    /// What languages and tasks hold unless a caller says otherwise.
    pub language: Option<String>,
    /// See `language`.
    pub task: Option<String>,
    /// Whether there are languages and tasks to choose from at all.
    pub multilingual: bool,
    /// The token that says that no times follow; the one behind it is the time 0.
    pub no_timestamps: Option<u32>,
    /// The largest time that a text may begin with, in steps.
    pub latest_start: Option<u32>,
    /// Whether times are written unless a caller says otherwise.
    pub timestamps: bool,
    /// Most tokens of a window, behind those that it begins with.
    pub longest: Option<u32>,
}

impl Speech {
    /// Samples of a second.
    pub const SAMPLE_RATE: u32 = 16_000;
    /// Samples from one frame of the spectrogram to the next.
    pub const HOP: u32 = 160;
    /// Samples of a frame.
    const FFT: u32 = 400;

    /// Reads the settings; the sizes of the encoder's input, and the first token, have been read.
    pub(super) fn read(s: &mut Settings<'_>, mels: u32, frames: u32, start: u32) -> Result<Speech, FamilyError> {
        let forced = forced(s)?;
        if s.flag("condition_on_prev_tokens", false)? {
            return Err(s.unsupported(
                "condition_on_prev_tokens",
                "true",
                "each window is written without those before it",
                "Leave it out to go without",
            ));
        }
        if let Some(threshold) = s.number("no_speech_threshold")? {
            return Err(s.unsupported(
                "no_speech_threshold",
                threshold,
                "no window is left out as silent",
                "Leave it out to go without",
            ));
        }
        // Without a list of temperatures to fall back on these change nothing.
        for key in ["compression_ratio_threshold", "logprob_threshold"] {
            s.number(key)?;
        }
        if s.optional_size("num_beams")?.is_some_and(|n| n > 1) {
            s.note("`num_beams`: speech is written by the likeliest token at each place, without a beam search");
        }
        Ok(Speech {
            mels,
            frames,
            start,
            end: s.token_id("eos_token_id")?.unwrap_or(50_256),
            forced,
            languages: s.ids("lang_to_id")?,
            tasks: s.ids("task_to_id")?,
            language: s.text("language")?,
            task: s.text("task")?,
            multilingual: s.flag("is_multilingual", true)?,
            no_timestamps: s.token_id("no_timestamps_token_id")?,
            latest_start: s.token_id("max_initial_timestamp_index")?,
            timestamps: s.flag("return_timestamps", false)?,
            longest: s.optional_size("max_length")?,
        })
    }

    /// The token of the time 0; all behind it are times, in steps of 0.02 s.
    pub fn first_timestamp(&self) -> Option<u32> {
        self.no_timestamps.map(|id| id.saturating_add(1))
    }

    /// The graph from `samples` f32 `[N]` to `input_features` f32 `[mels, ⌊N/160⌋]`. All frames of a sound belong into one
    /// run, since the loudest sets the floor of the others.
    ///
    /// # Errors
    /// A number of bands that no spectrogram has.
    pub fn front_end(&self) -> Result<Graph, IrError> {
        let mut graph = Graph::new();
        let samples = graph.input("samples", TensorType::f32(Shape::new([Dim::symbol("N")])))?;
        let mel = Op::LogMel {
            sample_rate: Self::SAMPLE_RATE,
            fft: Self::FFT,
            hop: Self::HOP,
            mels: self.mels,
            low: 0.0.into(),
            high: 8000.0.into(),
            scale: MelScale::Slaney,
            log: MelLog::Whisper,
        };
        let features = graph.op(mel, &[samples])?;
        graph.output("input_features", features)?;
        Ok(graph)
    }
}

/// The ids of `forced_decoder_ids`, pairs of a position and an id, as long as positions follow one another from 1 on.
/// −1 stands for null.
fn forced(s: &Settings<'_>) -> Result<Vec<Option<u32>>, FamilyError> {
    let key = "forced_decoder_ids";
    let pairs = s.pairs(key)?;
    if pairs.first().is_none_or(|&(at, _)| at != 1) {
        return Ok(Vec::new());
    }
    for (expected, &(at, _)) in (1..).zip(&pairs) {
        if at != expected {
            return Err(s.bad(
                key,
                format!("a pair with position {at}"),
                format!("position {expected} is the next one"),
                "Let positions follow one another, or leave the key out",
            ));
        }
    }
    pairs
        .into_iter()
        .map(|(_, id)| match u32::try_from(id) {
            Ok(id) => Ok(Some(id)),
            Err(_) if id == -1 => Ok(None),
            Err(_) => Err(s.bad(key, id, "expected the id of a token, or -1 for none", "Correct it")),
        })
        .collect()
}
