//! Speech to text: windows of a sound, one after another, as `transformers`' `WhisperForConditionalGeneration.generate`
//! goes through them without sampling.

mod timestamps;

use crate::audio::Sound;
use crate::session::read;
use crate::{Error, Model, Result, Session, Tensor, languages};
use std::collections::VecDeque;
use std::sync::Arc;
use tallow_executor::sampling::{Sampler, SamplingParams};
use tallow_executor::tokenizer::Tokenizer;
use tallow_executor::{Device, ExecutorError, Program, Rows};
use tallow_frontends::families::seq2seq::Speech;
use tallow_frontends::program::Driver;
use tallow_frontends::program::rules::Unfinished;
use tallow_ir::verify::verify;
use timestamps::{TimeRules, split};

/// What to write of a sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// What is said, in its own language.
    Transcribe,
    /// What is said, in English.
    Translate,
}

impl Task {
    /// Its name in configs.
    pub fn name(self) -> &'static str {
        match self {
            Task::Transcribe => "transcribe",
            Task::Translate => "translate",
        }
    }

    /// The task of a name.
    pub fn from_name(name: &str) -> Option<Task> {
        [Task::Transcribe, Task::Translate].into_iter().find(|task| task.name() == name)
    }
}

/// How to transcribe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscribeOptions {
    /// The language of the sound, by its code or its English name; `None`: what the config says, or what the model hears.
    pub language: Option<String>,
    /// What to write; `None`: what the config says.
    pub task: Option<Task>,
    /// Whether the model writes times; `None`: what the config says. A sound longer than a window always has them.
    pub timestamps: Option<bool>,
    /// Most tokens of a window.
    pub max_tokens: Option<usize>,
}

/// A stretch of a sound with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Seconds from the beginning of the sound.
    pub start: f64,
    /// See `start`.
    pub end: f64,
    /// What is said, as the model writes it, mostly with a space before it.
    pub text: String,
    /// Its tokens, times among them.
    pub tokens: Vec<u32>,
}

/// What is said in a sound.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// All of it.
    pub text: String,
    /// The parts, in order.
    pub segments: Vec<Segment>,
    /// The code of the language that was given or heard; `None` where the model has no choice of languages.
    pub language: Option<String>,
    /// Whether a window has more text than was asked for ([`TranscribeOptions::max_tokens`]).
    pub cut: bool,
}

impl Model {
    /// What is said in a sound.
    ///
    /// # Errors
    /// A model that hears nothing; a language or a task that it does not have; errors of running it.
    pub fn transcribe(&self, sound: &Sound, options: &TranscribeOptions) -> Result<Transcript> {
        let mut transcription = self.transcription(sound, options)?;
        let segments = transcription.by_ref().collect::<Result<Vec<_>>>()?;
        let tokens: Vec<u32> = segments.iter().flat_map(|s| s.tokens.iter().copied()).collect();
        let language = transcription.language().map(str::to_owned);
        let cut = transcription.is_cut();
        Ok(Transcript { text: transcription.text(&tokens), segments, language, cut })
    }

    /// The same, segment by segment as they are found.
    ///
    /// # Errors
    /// As [`Model::transcribe`].
    pub fn transcription(&self, sound: &Sound, options: &TranscribeOptions) -> Result<Transcription> {
        Transcription::new(self, sound, options)
    }

    /// The log-mel spectrogram of a sound, f32 `[mels, frames]` with a frame for each 10 ms; a sound shorter than a window is
    /// filled up with silence first.
    ///
    /// # Errors
    /// A model that hears nothing.
    pub fn sound_features(&self, sound: &Sound) -> Result<Tensor> {
        let speech = self.hears()?;
        let graph = speech.front_end().map_err(|e| self.of_graph(e))?;
        let graph = verify(graph).map_err(|e| self.of_graph(e))?;
        let mut options = *self.program().options();
        options.threads = 1;
        let program = Program::new(&graph, self.weights(), options)?;
        let mut samples = sound.samples().to_vec();
        let window = (speech.frames * Speech::HOP) as usize;
        samples.resize(samples.len().max(window), 0.0);
        let count = samples.len();
        let samples = Tensor::from_vec(samples, count, &Device::Cpu).map_err(ExecutorError::from)?;
        let made = tallow_executor::Session::new(Arc::new(program)).run(&[("samples".into(), samples)], Rows::All)?;
        let features = made.into_iter().next().map(|(_, features)| features);
        features.ok_or_else(|| self.of_graph("it has no output"))
    }

    fn of_graph(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Graph { file: self.file().label(), source: source.into() }
    }

    /// The settings of hearing.
    fn hears(&self) -> Result<&Speech> {
        self.speech().ok_or_else(|| {
            let of = match self.compiled() {
                Some(_) => "its program runs by its inputs alone (`--path family` takes what its type says, where there is one)",
                None => "models of speech are of the type whisper",
            };
            let (label, kind) = (self.file().label(), self.file().config().model_type());
            Error::Usage(format!("{label}: hears no sound: it is a `{kind}`, and {of}"))
        })
    }
}

/// Segments of a sound, as they are found.
pub struct Transcription {
    session: Session,
    speech: Speech,
    driver: Driver,
    tokenizer: Arc<Tokenizer>,
    sampler: Sampler,
    /// The spectrogram, band by band.
    features: Vec<f32>,
    /// Frames of the sound.
    frames: usize,
    /// The frame at which the next window begins.
    seek: usize,
    /// What each window's text begins with.
    prompt: Vec<u32>,
    rules: TimeRules,
    timestamps: bool,
    /// Most tokens of a window.
    limit: usize,
    language: Option<String>,
    /// Found and not yet given.
    found: VecDeque<Segment>,
    /// The frame of the window that the session has heard.
    heard: Option<usize>,
    /// Whether that limit is the caller's.
    asked: bool,
    /// Whether a window has reached the caller's limit before its end.
    cut: bool,
    failed: bool,
}

impl Transcription {
    fn new(model: &Model, sound: &Sound, options: &TranscribeOptions) -> Result<Self> {
        let speech = model.hears()?.clone();
        let driver = model.driver().cloned().ok_or_else(|| model.of_graph("nothing says how it writes text"))?;
        let choice = Choice::new(model, &speech, options)?;
        let features = model.sound_features(sound)?;
        let frames = features.dims().last().copied().unwrap_or(0);
        let features = features.flatten_all().and_then(|f| f.to_vec1::<f32>()).map_err(ExecutorError::from)?;
        let long = frames > speech.frames as usize;
        let timestamps = long || options.timestamps.unwrap_or(speech.timestamps);
        if timestamps && speech.no_timestamps.is_none() {
            let what = if long { "a sound longer than a window needs them" } else { "they were asked for" };
            let label = model.file().label();
            return Err(Error::Usage(format!(
                "{label}: writes no times, as its config has no `no_timestamps_token_id`, and {what}"
            )));
        }
        let rules = TimeRules {
            first: speech.first_timestamp().unwrap_or(u32::MAX),
            end: speech.end,
            latest_start: speech.latest_start,
        };
        let mut made = Transcription {
            session: model.session()?,
            driver,
            tokenizer: model.tokenizer()?,
            sampler: Sampler::new(SamplingParams::default())?,
            features,
            frames,
            seek: 0,
            prompt: Vec::new(),
            rules,
            timestamps,
            limit: 0,
            language: None,
            found: VecDeque::new(),
            heard: None,
            asked: false,
            cut: false,
            failed: false,
            speech,
        };
        made.begin(&choice, options)?;
        Ok(made)
    }

    /// Works out what each window's text begins with.
    fn begin(&mut self, choice: &Choice, options: &TranscribeOptions) -> Result<()> {
        let mut ids = vec![Some(self.speech.start)];
        if choice.language.is_none() && choice.task.is_none() {
            ids.extend(&self.speech.forced);
        }
        let open = ids.get(1).copied().flatten().is_none();
        let language = match choice.language {
            Some(id) => Some(id),
            None if open && !self.speech.languages.is_empty() => Some(self.detect()?),
            None => None,
        };
        match (language, ids.get_mut(1)) {
            (Some(id), Some(place)) => *place = Some(id),
            (Some(id), None) => ids.push(Some(id)),
            (None, _) => {}
        }
        let mut prompt: Vec<u32> = ids.into_iter().flatten().collect();
        prompt.extend(choice.task);
        if let Some(id) = self.speech.no_timestamps {
            match (self.timestamps, prompt.last() == Some(&id)) {
                (false, false) => prompt.push(id),
                (true, true) => prompt.truncate(prompt.len() - 1),
                (false, true) | (true, false) => {}
            }
        }
        let languages = &self.speech.languages;
        let spoken = prompt.get(1).and_then(|id| languages.iter().find(|(_, of)| of == id));
        self.language = spoken.map(|(token, _)| token.trim_start_matches("<|").trim_end_matches("|>").to_owned());
        let room = self.driver.total.unwrap_or(usize::MAX).saturating_sub(prompt.len());
        let limits = [options.max_tokens, self.speech.longest.map(|n| n as usize), self.driver.limit];
        self.limit = limits.into_iter().flatten().fold(room, usize::min);
        self.asked = options.max_tokens.is_some_and(|asked| asked <= self.limit);
        self.prompt = prompt;
        Ok(())
    }

    /// The language that the first window is likeliest in.
    fn detect(&mut self) -> Result<u32> {
        self.hear()?;
        let mut row = Vec::new();
        read(&self.session.logits(&[self.speech.start], Rows::Last)?, &mut row)?;
        let of_language = |id: usize| self.speech.languages.iter().any(|(_, of)| *of as usize == id);
        row.iter_mut().enumerate().filter(|(id, _)| !of_language(*id)).for_each(|(_, x)| *x = f32::NEG_INFINITY);
        Ok(self.sampler.sample(&row, &[])?)
    }

    /// The code of the language; `None` where the model has no choice of languages.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }

    /// Whether a window so far has more text than was asked for ([`TranscribeOptions::max_tokens`]).
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the model writes times.
    pub fn has_timestamps(&self) -> bool {
        self.timestamps
    }

    /// Tokens that each window's text begins with.
    pub fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    /// Seconds of the sound that have been gone through, and all of them.
    pub fn progress(&self) -> (f64, f64) {
        let seconds = |frames: usize| frames as f64 * f64::from(Speech::HOP) / f64::from(Speech::SAMPLE_RATE);
        (seconds(self.seek.min(self.frames)), seconds(self.frames))
    }

    /// The text of tokens, without times and markup.
    pub fn text(&self, tokens: &[u32]) -> String {
        let words: Vec<u32> = tokens.iter().copied().filter(|&id| id < self.rules.first).collect();
        self.tokenizer.decode(&words, true)
    }

    /// Frames of the window at hand that belong to the sound.
    fn own_frames(&self) -> usize {
        (self.frames - self.seek).min(self.speech.frames as usize)
    }

    /// Gives the window to the encoder, unless it has just heard it. Behind the end of the sound features are 0.
    fn hear(&mut self) -> Result<()> {
        if self.heard == Some(self.seek) {
            return Ok(());
        }
        let (count, own) = (self.speech.frames as usize, self.own_frames());
        let mut window = Vec::with_capacity(self.speech.mels as usize * count);
        for band in self.features.chunks_exact(self.frames) {
            window.extend_from_slice(&band[self.seek..self.seek + own]);
            window.resize(window.len() + count - own, 0.0);
        }
        let shape = (self.speech.mels as usize, count);
        let features = Tensor::from_vec(window, shape, &Device::Cpu).map_err(ExecutorError::from)?;
        self.session.begin(&[("input_features".to_owned(), features)])?;
        self.heard = Some(self.seek);
        Ok(())
    }

    /// The tokens of the window that the session has heard.
    fn write(&mut self) -> Result<Vec<u32>> {
        let (mut tokens, mut row) = (Vec::new(), Vec::new());
        if self.limit == 0 {
            self.cut |= self.asked;
            return Ok(tokens);
        }
        read(&self.session.logits(&self.prompt, Rows::Last)?, &mut row)?;
        loop {
            let (so_far, ends) = (&self.session.tokens, self.session.model().end_ids());
            let text = Unfinished { tokens: so_far, begun: self.prompt.len(), ends, longest: None };
            self.driver.rules.apply(&mut row, &text);
            if self.timestamps {
                self.rules.restrict(&tokens, &mut row);
            }
            let id = self.sampler.sample(&row, &[])?;
            if id == self.speech.end || self.session.model().end_ids().contains(&id) {
                return Ok(tokens);
            }
            tokens.push(id);
            if tokens.len() >= self.limit || !self.session.step(id, &mut row)? {
                self.cut |= self.asked && tokens.len() >= self.limit;
                return Ok(tokens);
            }
        }
    }

    /// Goes through the next window.
    fn advance(&mut self) -> Result<()> {
        self.hear()?;
        let tokens = self.write()?;
        let own = self.own_frames();
        let (pieces, taken) = split(&tokens, self.rules.first, self.seek, own);
        for piece in pieces {
            let tokens = tokens[piece.tokens].to_vec();
            self.found.push_back(Segment { start: piece.start, end: piece.end, text: self.text(&tokens), tokens });
        }
        // Every window goes on, even after times that do not.
        self.seek += if taken == 0 { own } else { taken };
        Ok(())
    }
}

impl Iterator for Transcription {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(segment) = self.found.pop_front() {
                return Some(Ok(segment));
            }
            if self.failed || self.seek >= self.frames {
                return None;
            }
            if let Err(error) = self.advance() {
                // What followed would not be the model's text.
                self.failed = true;
                return Some(Err(error));
            }
        }
    }
}

/// The tokens of the language and the task that a caller or the config chooses.
struct Choice {
    language: Option<u32>,
    task: Option<u32>,
}

impl Choice {
    fn new(model: &Model, speech: &Speech, options: &TranscribeOptions) -> Result<Choice> {
        let label = model.file().label();
        let refuse = |cause: String| Err(Error::Usage(format!("{label}: {cause}")));
        if !speech.multilingual && (options.language.is_some() || options.task.is_some()) {
            return refuse(
                "it has no choice of languages and tasks (`is_multilingual` = false); leave them out".into(),
            );
        }
        let language = match options.language.as_ref().or(speech.language.as_ref()) {
            None => None,
            Some(language) => match language_id(speech, language) {
                Ok(id) => Some(id),
                Err(cause) => return refuse(cause),
            },
        };
        let named = match (options.task, speech.task.as_deref()) {
            (Some(task), _) => Some(task.name()),
            (None, Some(name)) => Some(name),
            // A language alone means transcription.
            (None, None) => (language.is_some() && !speech.tasks.is_empty()).then_some(Task::Transcribe.name()),
        };
        let Some(name) = named else { return Ok(Choice { language, task: None }) };
        match speech.tasks.iter().find(|(task, _)| task == name && Task::from_name(name).is_some()) {
            Some((_, id)) => Ok(Choice { language, task: Some(*id) }),
            None if speech.tasks.is_empty() => {
                refuse(format!("it has no task `{name}`: its config names none (`task_to_id`)"))
            }
            None => {
                let known: Vec<&str> = speech.tasks.iter().map(|(task, _)| task.as_str()).collect();
                refuse(format!("it has no task `{name}`; it has {}", known.join(", ")))
            }
        }
    }
}

/// The token of a language, or what is wrong with it.
fn language_id(speech: &Speech, language: &str) -> std::result::Result<u32, String> {
    if speech.languages.is_empty() {
        return Err(format!("no language can be chosen, as with `{language}`: its config names none (`lang_to_id`)"));
    }
    languages::find(&speech.languages, language)
}
