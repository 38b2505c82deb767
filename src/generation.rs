//! A generation: an iterator of pieces of text.

use crate::session::read;
use crate::{Error, GenerateOptions, Model, Result, Session, Tensor, languages};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallow_executor::Rows;
use tallow_executor::sampling::{AllowedIds, Sampler};
use tallow_executor::stream::{StopMatcher, TextStream};
use tallow_executor::tokenizer::Tokenizer;
use tallow_frontends::program::Driver;
use tallow_frontends::program::rules::Unfinished;

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The model gave an end token, or the text a stop string.
    Stop,
    /// The asked number of tokens was reached.
    Length,
    /// The context is full.
    Context,
}

/// What a generation took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Tokens of the prompt; of a source that was read for this text, its own.
    pub prompt_tokens: usize,
    /// Those of them that the cache already held.
    pub reused_tokens: usize,
    /// Time for the prompt, or for reading the source, until the first logits.
    pub prefill: Duration,
    /// Tokens generated.
    pub tokens: usize,
    /// Time for the tokens after the first.
    pub decode: Duration,
}

impl Statistics {
    /// Prompt tokens per second, those in the cache left out.
    pub fn prefill_rate(&self) -> f64 {
        (self.prompt_tokens - self.reused_tokens) as f64 / self.prefill.as_secs_f64().max(1e-9)
    }

    /// Generated tokens per second, the first left out, as its logits are the prompt's.
    pub fn decode_rate(&self) -> f64 {
        self.tokens.saturating_sub(1) as f64 / self.decode.as_secs_f64().max(1e-9)
    }
}

/// Pieces of text, each valid UTF-8 and not empty; stop strings and special tokens are left out. Of a model without a tokenizer
/// they are the ids, an end token too, with a space between each two.
/// Dropping it early leaves the session usable.
pub struct Generation<'a> {
    session: &'a mut Session,
    sampler: Sampler,
    tokenizer: Option<Arc<Tokenizer>>,
    stream: TextStream,
    stops: StopMatcher,
    /// Logits of the next token.
    logits: Option<Tensor>,
    /// Memory for logits.
    row: Vec<f32>,
    ids: Vec<u32>,
    limit: Option<usize>,
    /// How many tokens it began with.
    begun: usize,
    /// What the program says about it.
    driver: Option<Driver>,
    /// Ids that end it.
    ends: Vec<u32>,
    ignore_end: bool,
    ended: Option<Ended>,
    statistics: Statistics,
}

impl<'a> Generation<'a> {
    pub(crate) fn new(
        session: &'a mut Session,
        prompt: &[u32],
        sampler: Sampler,
        options: &GenerateOptions,
    ) -> Result<Self> {
        if prompt.is_empty() {
            return Err(Error::Usage("the prompt is empty and this model has no begin token; give some text".into()));
        }
        let tokenizer = session.model().own_tokenizer()?;
        let driver = languages::driver(session.model(), options)?;
        let ends = ends(session.model());
        let stops = StopMatcher::new(options.stop.iter().cloned()).map_err(|e| Error::Usage(e.to_string()))?;
        let start = Instant::now();
        let before = session.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count().min(prompt.len() - 1);
        let logits = session.logits(prompt, Rows::Last)?;
        let prefill = start.elapsed();
        let statistics = match session.take_source() {
            Some((tokens, read)) => {
                Statistics { prompt_tokens: tokens, prefill: read + prefill, ..Statistics::default() }
            }
            None => Statistics { prompt_tokens: prompt.len(), reused_tokens: before, prefill, ..Statistics::default() },
        };
        // What is made of a source begins a text of its own.
        let stream = match session.model().reads_source() {
            true => TextStream::from_start(true),
            false => TextStream::continuing(true),
        };
        Ok(Generation {
            session,
            sampler: match &tokenizer {
                Some(tokenizer) => sampler.with_allowed(AllowedIds::of(tokenizer)),
                None => sampler,
            },
            tokenizer,
            stream,
            stops,
            logits: Some(logits),
            row: Vec::new(),
            ids: Vec::new(),
            limit: limit(options.max_tokens, driver.as_ref(), prompt.len()),
            begun: prompt.len(),
            ends,
            driver,
            ignore_end: options.ignore_end,
            ended: None,
            statistics,
        })
    }

    /// The ids generated so far, an end token included.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// What it took so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Why it ended; `None` while it goes on.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What the stream and the stop strings held back; empty the second time.
    fn rest(&mut self) -> String {
        let last = self.stops.push(&self.stream.finish()).text;
        last + &self.stops.finish()
    }

    /// The next piece; `None` once the end is reached and all text is out.
    fn advance(&mut self) -> Result<Option<String>> {
        loop {
            if self.ended.is_some() {
                return Ok(Some(self.rest()).filter(|text| !text.is_empty()));
            }
            if self.limit.is_some_and(|limit| self.ids.len() >= limit) {
                self.ended = Some(Ended::Length);
                continue;
            }
            let start = Instant::now();
            let mut row = std::mem::take(&mut self.row);
            match (self.logits.take(), self.ids.last()) {
                (Some(logits), _) => read(&logits, &mut row)?,
                (None, Some(&last)) => {
                    if !self.session.step(last, &mut row)? {
                        self.ended = Some(Ended::Context);
                        continue;
                    }
                }
                (None, None) => return Ok(None),
            }
            if let Some(driver) = &self.driver {
                let (begun, tokens) = (self.begun, &self.session.tokens);
                let longest = self.limit.map(|limit| begun + limit);
                driver.rules.apply(&mut row, &Unfinished { tokens, begun, ends: &self.ends, longest });
            }
            let id = self.sampler.sample(&row, &self.session.tokens)?;
            self.row = row;
            if !self.ids.is_empty() {
                self.statistics.decode += start.elapsed();
            }
            self.ids.push(id);
            self.statistics.tokens += 1;
            let ends = !self.ignore_end && self.ends.contains(&id);
            if ends {
                self.ended = Some(Ended::Stop);
            }
            let Some(tokenizer) = &self.tokenizer else {
                let space = if self.ids.len() > 1 { " " } else { "" };
                return Ok(Some(format!("{space}{id}")));
            };
            if ends {
                continue;
            }
            let outcome = self.stops.push(&self.stream.push(tokenizer, id));
            if outcome.stopped.is_some() {
                self.ended = Some(Ended::Stop);
            }
            if !outcome.text.is_empty() {
                return Ok(Some(outcome.text));
            }
        }
    }
}

/// Most tokens to generate: what the caller asks for, else what the model is meant for, and what is possible; `None` where
/// nothing limits them.
pub(crate) fn limit(asked: Option<usize>, driver: Option<&Driver>, prompt: usize) -> Option<usize> {
    let Some(driver) = driver else { return asked };
    let new = |total: usize| total.saturating_sub(prompt);
    let wanted = asked.or(driver.length.map(new));
    [wanted, driver.limit, driver.total.map(new)].into_iter().flatten().min()
}

/// Ids that end a text: for the model, or for its program.
pub(crate) fn ends(model: &Model) -> Vec<u32> {
    let own = model.driver().map_or(&[][..], |d| d.stop.as_slice());
    let mut ends = [model.end_ids(), own].concat();
    ends.sort_unstable();
    ends.dedup();
    ends
}

impl Iterator for Generation<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.advance().transpose();
        if matches!(piece, Some(Err(_))) {
            // An error ends it: what follows would not be the model's text.
            self.ended = Some(Ended::Stop);
            self.rest();
        }
        piece
    }
}
