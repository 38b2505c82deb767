//! A session: a conversation, or one text after another.

use crate::compiled::{self, Answer};
use crate::text::{IDS, most_tokens};
use crate::vision_language::{self, Looked};
use crate::{Error, Generation, Model, Result, languages, tokens};
use std::time::{Duration, Instant};
use tallow_executor::chat::{Message, Variables, encode_prompt};
use tallow_executor::sampling::{Sampler, SamplingParams};
use tallow_executor::tokenizer::EncodeOptions;
use tallow_executor::{ExecutorError, Rows, Tensor};
use tallow_frontends::program::module::Start;
use tallow_frontends::program::{Driver, Outcome};

/// How to continue a text.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// Sampling; `None`: what the config says.
    pub sampling: Option<SamplingParams>,
    /// Most tokens to generate; `None`: until the model ends, or the context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end the generation; they are not part of it.
    pub stop: Vec<String>,
    /// Leaves the chat template out.
    pub raw: bool,
    /// Goes on past end tokens.
    pub ignore_end: bool,
    /// The language of the text, for a model that reads one and writes another: its code with the model (`ro_RO`, `__ro__`),
    /// a plain one (`ro`) or an English name; `None`: what the tokenizer says.
    pub source_language: Option<String>,
    /// The language to write, likewise.
    pub target_language: Option<String>,
}

/// A conversation over a [`Model`]: what earlier calls saw is kept, and a new prompt that begins as
/// they did runs only from where it differs. Cloning makes a branch.
#[derive(Clone)]
pub struct Session {
    model: Model,
    pub(crate) inner: tallow_executor::Session,
    /// The tokens in the cache.
    pub(crate) tokens: Vec<u32>,
    /// Whether what a program computes once before a text has been computed.
    begun: bool,
    /// The tokens of a source that was read, and the time for it, until a text begins.
    source: Option<(usize, Duration)>,
    /// The prompt with pictures that the inputs beside the tokens belong to, of a model that sees.
    looked: Looked,
}

impl Session {
    pub(crate) fn new(model: Model) -> Result<Self> {
        let mut inner = tallow_executor::Session::new(model.program().clone());
        let begun = model.once().is_none() || model.sight().is_some();
        if model.sight().is_some() {
            inner.set_fixed_by_place(vision_language::nothing(&model)?);
        }
        Ok(Session { model, inner, tokens: Vec::new(), begun, source: None, looked: Looked::default() })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Number of tokens in the cache.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Bytes that the cache holds.
    pub fn cache_bytes(&self) -> usize {
        self.inner.cache_bytes()
    }

    /// Begins the random numbers of the graph anew, from this seed. What [`GenerateOptions`] samples has a
    /// seed of its own.
    pub fn set_seed(&mut self, seed: u64) {
        self.inner.set_seed(seed);
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.inner.reset();
        self.tokens.clear();
    }

    /// The results of what runs once before a text, as a tower for pictures does, from its inputs; nothing is kept.
    ///
    /// # Errors
    /// A model without such a part; inputs that do not fit.
    pub fn once(&self, inputs: &[(String, Tensor)]) -> Result<Vec<(String, Tensor)>> {
        let Some(once) = self.model.once_program().cloned() else {
            return Err(Error::Usage(format!("{}: takes a prompt and no other inputs", self.model.file().label())));
        };
        if let Some(most) = most_tokens(once.plan())
            && let Some((_, ids)) = inputs.iter().find(|(name, ids)| name == IDS && ids.elem_count() > most)
        {
            return Err(Error::Usage(format!(
                "{}: the text has {} tokens, and at most {most} are read: what stands between each two of them takes memory \
                 by their square; shorten the text, or give it in parts",
                self.model.file().label(),
                ids.elem_count()
            )));
        }
        Ok(tallow_executor::Session::new(once).run(inputs, Rows::All)?)
    }

    /// Computes what a program computes once before a text, as an encoder of sound does, from its inputs; what was
    /// generated before is forgotten.
    ///
    /// # Errors
    /// A model without such a part; inputs that do not fit.
    pub fn begin(&mut self, inputs: &[(String, Tensor)]) -> Result<()> {
        if self.model.sight().is_some() {
            let label = self.model.file().label();
            return Err(Error::Usage(format!("{label}: pictures are given beside a prompt, as by `--image FILE`")));
        }
        let start = Instant::now();
        let made = self.once(inputs)?;
        let ids = inputs.iter().find(|(name, _)| name == IDS);
        self.source = ids.map(|(_, ids)| (ids.elem_count(), start.elapsed()));
        self.inner.set_fixed(made);
        self.tokens.clear();
        self.begun = true;
        Ok(())
    }

    /// The tokens of the source that was last read, and the time for it; nothing the second time.
    pub(crate) fn take_source(&mut self) -> Option<(usize, Duration)> {
        self.source.take()
    }

    /// Takes the inputs beside the tokens that belong to a prompt with pictures; what was generated before is forgotten.
    pub(crate) fn set_looked(&mut self, fixed: Vec<(String, Tensor)>, looked: Looked) {
        self.inner.set_fixed_by_place(fixed);
        self.tokens.clear();
        self.looked = looked;
    }

    /// The prompt with pictures that the session has looked at.
    pub(crate) fn looked(&self) -> &Looked {
        &self.looked
    }

    /// Generates text from inputs other than a prompt, or beside one: from sound, say.
    ///
    /// # Errors
    /// As [`Session::begin`]; a prompt missing where the program wants one, or given where it takes none.
    pub fn generate_from(
        &mut self,
        inputs: &[(String, Tensor)],
        prompt: Option<&str>,
        options: &GenerateOptions,
    ) -> Result<Generation<'_>> {
        if !(inputs.is_empty() && self.begun) {
            self.begin(inputs)?;
        }
        self.start(prompt, options)
    }

    /// The generation of a program from what it begins with.
    fn start(&mut self, prompt: Option<&str>, options: &GenerateOptions) -> Result<Generation<'_>> {
        let start = languages::driver(&self.model, options)?.map_or(Start::Prompt, |d| d.start);
        match (start, prompt) {
            (Start::Ids(ids), None) => self.continue_ids(&ids, options),
            (Start::Prompt, Some(prompt)) => self.generate_with(prompt, options),
            (Start::Ids(_), Some(_)) => {
                let label = self.model.file().label();
                Err(Error::Usage(format!("{label}: its program takes no prompt; give its inputs alone")))
            }
            (Start::Prompt, None) => {
                Err(Error::Usage(format!("{}: its program takes a prompt too", self.model.file().label())))
            }
        }
    }

    /// Runs a program that generates no text on its inputs.
    ///
    /// # Errors
    /// Inputs that do not fit; a failure of the program's own code.
    pub fn answer(&mut self, inputs: &[(String, Tensor)]) -> Result<Answer> {
        let plan = self.model.program().plan();
        let known: Vec<(String, Tensor)> =
            inputs.iter().filter(|(name, _)| plan.inputs.iter().any(|i| i.name == *name)).cloned().collect();
        let model = self.model.clone();
        let value = match model.compiled().map(|c| (c, &c.module.outcome)) {
            Some((compiled, Outcome::Value(value))) => Some((compiled, value)),
            _ => None,
        };
        // Without code that reads the others too, an input that nothing takes is an error of the call.
        let outputs = self.inner.run(if value.is_some() { &known } else { inputs }, Rows::All)?;
        let Some((compiled, value)) = value else { return Ok(Answer::Tensors(outputs)) };
        let given =
            |name: &str| inputs.iter().chain(&outputs).find(|(n, _)| n == name).map(|(_, tensor)| tensor.clone());
        let fault = |cause: String| Error::Graph { file: model.file().label(), source: cause.into() };
        let made = compiled.host.value(value, &given).map_err(fault)?;
        Ok(Answer::Value(compiled::json(&made, 0).map_err(fault)?))
    }

    /// Reads the text that another is made of, and gives the ids with which that begins.
    pub(crate) fn read_source(&mut self, text: &str, options: &GenerateOptions) -> Result<Vec<u32>> {
        let language = languages::source(&self.model, options)?;
        let start = languages::start(&self.model, options)?;
        let source = self.model.source_input(text, language)?;
        self.begin(&[source])?;
        Ok(start)
    }

    /// An error where inputs must be given first.
    fn check_begun(&self) -> Result<()> {
        match self.model.once() {
            Some(once) if !self.begun => Err(Error::Usage(format!(
                "{}: its program needs inputs beside a prompt: {} (`tallow run MODEL --input NAME=FILE`)",
                self.model.file().label(),
                once.signature()
            ))),
            _ => Ok(()),
        }
    }

    /// Continues a prompt as the config says, through the chat template where the model has one.
    /// The result is an iterator of pieces of text.
    pub fn generate(&mut self, prompt: &str) -> Result<Generation<'_>> {
        self.generate_with(prompt, &GenerateOptions::default())
    }

    /// Continues a prompt.
    pub fn generate_with(&mut self, prompt: &str, options: &GenerateOptions) -> Result<Generation<'_>> {
        self.model.takes_text()?;
        if self.model.reads_source() {
            let start = self.read_source(prompt, options)?;
            return self.continue_ids(&start, options);
        }
        self.check_begun()?;
        if let Some(Driver { start: Start::Ids(_), .. }) = self.model.driver() {
            return self.start(Some(prompt), options);
        }
        if !options.raw && self.model.has_chat()? {
            return self.reply(&[Message::new("user", prompt)], options);
        }
        let ids = self.encode(prompt)?;
        self.continue_ids(&ids, options)
    }

    /// Answers a conversation through the chat template.
    pub fn reply(&mut self, messages: &[Message], options: &GenerateOptions) -> Result<Generation<'_>> {
        self.model.takes_text()?;
        let ids = self.encode_chat(messages)?;
        let mut options = options.clone();
        if let Some(chat) = self.model.chat()? {
            options.stop.extend(chat.stops().iter().cloned());
        }
        self.continue_ids(&ids, &options)
    }

    /// The ids of a conversation up to where the answer begins.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let file = || self.model.file().label();
        if self.model.chat()?.is_none()
            && let Some(compiled) = self.model.compiled()
            && compiled.module.chat.is_some()
        {
            return compiled.encode_chat(&self.model, messages);
        }
        let chat = self
            .model
            .chat()?
            .ok_or_else(|| Error::Usage(format!("{}: has no chat template; use a raw prompt (--raw)", file())))?;
        let tokenizer = self.model.tokenizer()?;
        let text =
            chat.render(messages, true, &Variables::new()).map_err(|source| Error::Chat { file: file(), source })?;
        let ids = encode_prompt(&tokenizer, &text).map_err(|source| Error::Tokenizer { file: file(), source })?;
        tokens::check_rows(&self.model, &tokenizer, &ids).map(|()| ids)
    }

    /// The ids of a raw prompt, begun as the model wants.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        let options = EncodeOptions { add_special: true, parse_special: true };
        let tokenizer = self.model.tokenizer()?;
        let fault = |source| Error::Tokenizer { file: self.model.file().label(), source };
        let ids = tokenizer.encode(prompt, options).map_err(fault)?;
        tokens::check_rows(&self.model, &tokenizer, &ids).map(|()| ids)
    }

    /// Continues a sequence of ids; what the cache shares with it is not run again. Pictures among them are those that the
    /// session has looked at ([`Session::look`]).
    pub fn continue_ids(&mut self, ids: &[u32], options: &GenerateOptions) -> Result<Generation<'_>> {
        let sampling = match &options.sampling {
            Some(sampling) => *sampling,
            None => self.model.sampling(0)?,
        };
        let ids = &self.spread(ids);
        Generation::new(self, ids, Sampler::new(sampling)?, options)
    }

    /// The logits after `ids`, which become the content of the cache: `f32` `[1, vocab]` for the last
    /// row, or one row per id that was not in the cache yet.
    pub fn logits(&mut self, ids: &[u32], rows: Rows) -> Result<Tensor> {
        self.check_looked(ids)?;
        let shared = match rows {
            _ if self.inner.is_stateless() => 0,
            Rows::All => 0,
            // The last id always runs, as its logits are wanted.
            Rows::Last => {
                self.tokens.iter().zip(ids).take_while(|(a, b)| a == b).count().min(ids.len().saturating_sub(1))
            }
        };
        self.inner.truncate(shared);
        self.tokens.truncate(shared);
        let logits = self.inner.forward(&ids[shared..], rows)?;
        self.tokens.extend_from_slice(&ids[shared..]);
        Ok(logits)
    }

    /// Runs the graph once on named inputs, after what the cache holds, and gives every output.
    pub fn run(&mut self, inputs: &[(String, Tensor)], rows: Rows) -> Result<Vec<(String, Tensor)>> {
        Ok(self.inner.run(inputs, rows)?)
    }

    /// Runs one more token and puts its logits in `row`; `false` for a full context.
    pub(crate) fn step(&mut self, id: u32, row: &mut Vec<f32>) -> Result<bool> {
        let done = match self.inner.is_stateless() {
            // Each call holds the whole text.
            true => {
                let whole = [self.tokens.as_slice(), &[id]].concat();
                self.logits(&whole, Rows::Last).and_then(|logits| read(&logits, row))
            }
            false => self.inner.decode(id).map_err(Error::from).map(|logits| {
                row.clear();
                row.extend_from_slice(logits);
                self.tokens.push(id);
            }),
        };
        match done {
            Ok(()) => Ok(true),
            Err(Error::Executor(ExecutorError::ContextFull { .. })) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The values of a tensor.
pub(crate) fn read(logits: &Tensor, row: &mut Vec<f32>) -> Result<()> {
    let values = logits.flatten_all().and_then(|l| l.to_vec1::<f32>()).map_err(ExecutorError::from)?;
    *row = values;
    Ok(())
}
