//! Encoders: from texts to vectors, labels, tagged tokens and words for masks.
//!
//! Such a graph takes `input_ids` of several texts one after another and `starts`, the place of the first token of each. So
//! texts of different lengths share a call without padding, and each gives what it gives alone.

mod calls;
mod heads;
mod limits;

pub use heads::{Filling, Label, Tag};
pub(crate) use heads::{Labels, softmax};
pub(crate) use limits::{most_tokens, positions};

use crate::model::tensor;
use crate::picture::no_picture;
use crate::tokens::check_rows;
use crate::{Error, Model, Result, Session, Tensor};
use std::ops::Range;
use std::sync::Arc;
use tallow_executor::tokenizer::{Encoding, Tokenizer, TokenizerError};
use tallow_executor::{ExecutorError, Rows};
use tallow_frontends::families::vision::{IMAGE_EMBEDS, TEXT_EMBEDS};
use tallow_ir::Graph;

/// What a graph makes of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTask {
    /// A vector of each text.
    Embed,
    /// Probabilities of labels for each text.
    Classify,
    /// A label for each token.
    Tag,
    /// Words in the place of mask tokens.
    FillMask,
}

impl TextTask {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            TextTask::Embed => "vectors of texts",
            TextTask::Classify => "labels of texts",
            TextTask::Tag => "labels of tokens",
            TextTask::FillMask => "words for masks",
        }
    }

    /// What a graph makes of texts whose vocabulary has so many rows; none for a graph that does not take several texts.
    fn of(graph: &Graph, vocabulary: Option<usize>) -> Option<Self> {
        graph.input_named(IDS)?;
        let texts = graph.ty(graph.input_named(STARTS)?).shape.dims().first()?;
        let Some(logits) = graph.output_named(LOGITS) else {
            return embedding(graph).map(|_| TextTask::Embed);
        };
        let dims = graph.ty(logits).shape.dims();
        let columns = dims.last()?.as_const().and_then(|n| usize::try_from(n).ok());
        Some(match dims.first() {
            Some(first) if first == texts => TextTask::Classify,
            _ if columns.is_some() && columns == vocabulary => TextTask::FillMask,
            _ => TextTask::Tag,
        })
    }
}

pub(crate) const IDS: &str = "input_ids";
pub(crate) const STARTS: &str = "starts";
pub(crate) const TYPES: &str = "token_type_ids";
const LOGITS: &str = "logits";
/// Outputs that may be the vector of a text, the first that there is.
const EMBEDDINGS: [&str; 3] = ["embedding", TEXT_EMBEDS, "pooler_output"];

/// The output that is the vector of a text.
fn embedding(graph: &Graph) -> Option<&'static str> {
    EMBEDDINGS.into_iter().find(|name| graph.output_named(name).is_some())
}

/// A text that was too long for the model and has been cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutText {
    /// Its place among the texts of the call.
    pub text: usize,
    /// How many tokens of it were left out.
    pub tokens: usize,
}

/// A text, or two that belong together.
type Input<'a> = (&'a str, Option<&'a str>);

/// Gets each batch that has run, the place of its first text among all, and the rows of an output.
type Take<'a> = dyn FnMut(&Batch, usize, Vec<Vec<f32>>) -> Result<()> + 'a;

/// Runs texts through an encoder, several a call.
pub struct Encoder {
    model: Model,
    session: Session,
    tokenizer: Arc<Tokenizer>,
    task: TextTask,
    /// The most tokens of a text.
    limit: Option<usize>,
    /// About so many tokens run in a call.
    batch: usize,
    takes_types: bool,
    /// The vectors of pictures that a call takes beside texts.
    pictures: Option<Tensor>,
    cut: Vec<CutText>,
    tokens: usize,
}

/// Tokens of a call where nothing else is said: enough to keep threads busy, little enough for the caches.
const BATCH: usize = 512;

/// Texts that run in one call.
#[derive(Default)]
struct Batch {
    ids: Vec<i64>,
    types: Vec<i64>,
    around: Vec<bool>,
    starts: Vec<i64>,
    /// Of each text the tokens that were left out.
    cut: Vec<usize>,
}

impl Batch {
    fn push(&mut self, encoding: &Encoding) {
        self.starts.push(self.ids.len() as i64);
        self.ids.extend(encoding.ids.iter().map(|&id| i64::from(id)));
        self.types.extend(encoding.types.iter().map(|&of_type| i64::from(of_type)));
        self.around.extend(&encoding.around);
        self.cut.push(encoding.cut);
    }

    /// The tokens of each text.
    fn texts(&self) -> Vec<Range<usize>> {
        let ends = self.starts.iter().skip(1).copied().chain([self.ids.len() as i64]);
        self.starts.iter().zip(ends).map(|(&start, end)| start as usize..end as usize).collect()
    }
}

impl Encoder {
    fn new(model: Model) -> Result<Self> {
        let Some(task) = model.text_task() else {
            return Err(Error::Usage(format!(
                "{}: takes no whole texts, as encoders do; its graph takes {}",
                model.file().label(),
                model.signature()
            )));
        };
        let tokenizer = model.tokenizer()?;
        let context = model.program().options().context;
        let square = most_tokens(model.program().plan());
        let limit = [positions(&model)?, tokenizer.max_length(), context, square].into_iter().flatten().min();
        let takes_types = model.program().plan().inputs.iter().any(|input| input.name == TYPES);
        Ok(Encoder {
            session: model.session()?,
            tokenizer,
            task,
            limit,
            batch: BATCH.min(context.unwrap_or(BATCH)),
            takes_types,
            pictures: no_picture(&model)?,
            cut: Vec::new(),
            tokens: 0,
            model,
        })
    }

    /// Runs about so many tokens a call; a longer text runs alone.
    pub fn set_batch(&mut self, tokens: usize) {
        self.batch = tokens.max(1);
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The rows of an output for texts beside the vectors of pictures: a row for each picture, with a number for each text.
    pub(crate) fn beside(&mut self, pictures: Tensor, texts: &[&str], output: &str) -> Result<Vec<Vec<f32>>> {
        let own = self.pictures.replace(pictures);
        let mut rows: Vec<Vec<f32>> = Vec::new();
        let done = self.run(&single(texts), output, &mut |_, _, found| {
            rows.resize_with(found.len(), Vec::new);
            rows.iter_mut().zip(found).for_each(|(row, found)| row.extend(found));
            Ok(())
        });
        self.pictures = own;
        done.map(|()| rows)
    }

    /// What the graph makes of texts.
    pub fn task(&self) -> TextTask {
        self.task
    }

    /// The most tokens of a text, those around it included.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The texts of the last call that were too long and have been cut.
    pub fn cut(&self) -> &[CutText] {
        &self.cut
    }

    /// The tokens of the last call.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// As [`Model::embed`].
    pub fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.wants(TextTask::Embed)?;
        let output = embedding(self.model.graph().graph()).unwrap_or(EMBEDDINGS[0]);
        let mut vectors = Vec::with_capacity(texts.len());
        self.run(&single(texts), output, &mut |_, _, rows| {
            vectors.extend(rows);
            Ok(())
        })?;
        Ok(vectors)
    }

    /// As [`Model::classify`].
    pub fn classify(&mut self, texts: &[&str]) -> Result<Vec<Vec<Label>>> {
        self.classify_inputs(&single(texts))
    }

    /// The labels of pairs of texts, as models give them that compare two texts or answer one by another.
    ///
    /// # Errors
    /// A model that does not classify texts, or whose tokenizer says nothing about pairs.
    pub fn classify_pairs(&mut self, pairs: &[(&str, &str)]) -> Result<Vec<Vec<Label>>> {
        let inputs: Vec<Input<'_>> = pairs.iter().map(|(a, b)| (*a, Some(*b))).collect();
        self.classify_inputs(&inputs)
    }

    fn classify_inputs(&mut self, inputs: &[Input<'_>]) -> Result<Vec<Vec<Label>>> {
        self.wants(TextTask::Classify)?;
        let head = Labels::of(&self.model)?;
        let mut labelled = Vec::with_capacity(inputs.len());
        self.run(inputs, LOGITS, &mut |_, _, rows| {
            labelled.extend(rows.into_iter().map(|row| head.of_text(&row)));
            Ok(())
        })?;
        Ok(labelled)
    }

    /// As [`Model::tag`].
    pub fn tag(&mut self, texts: &[&str]) -> Result<Vec<Vec<Tag>>> {
        self.wants(TextTask::Tag)?;
        let head = Labels::of(&self.model)?;
        let tokenizer = self.tokenizer.clone();
        let mut tagged = Vec::with_capacity(texts.len());
        self.run(&single(texts), LOGITS, &mut |batch, _, rows| {
            for text in batch.texts() {
                let inside = text.filter(|&at| !batch.around[at]);
                let tag = |at: usize| head.of_token(&tokenizer, batch.ids[at] as u32, &rows[at]);
                tagged.push(inside.map(tag).collect());
            }
            Ok(())
        })?;
        Ok(tagged)
    }

    /// As [`Model::fill_mask`].
    pub fn fill_mask(&mut self, texts: &[&str], best: usize) -> Result<Vec<Vec<Vec<Filling>>>> {
        self.wants(TextTask::FillMask)?;
        let tokenizer = self.tokenizer.clone();
        let label = self.model.file().label();
        let Some(mask) = tokenizer.mask() else {
            let cure = "add `mask_token` to [tokenizer] of its config";
            return Err(Error::Usage(format!("{label}: its tokenizer names no mask token; {cure}")));
        };
        let mut filled = Vec::with_capacity(texts.len());
        let limit = self.limit.unwrap_or_default();
        self.run(&single(texts), LOGITS, &mut |batch, first, rows| {
            for (n, text) in batch.texts().into_iter().enumerate() {
                let masks = text.filter(|&at| batch.ids[at] == i64::from(mask));
                let fillings: Vec<_> = masks.map(|at| heads::fillings(&tokenizer, &rows[at], best)).collect();
                let fault = |cause: String| Error::Usage(format!("{label}: text {} {cause}", first + n + 1));
                let name = tokenizer.token_text(mask).unwrap_or_default();
                if batch.cut[n] > 0 {
                    let whole = tokenizer.encode_within(texts[first + n], None);
                    let whole = whole.map_err(|source| Error::Tokenizer { file: label.clone(), source })?;
                    let lost = whole.ids.iter().filter(|&&id| id == mask).count().saturating_sub(fillings.len());
                    if lost > 0 {
                        return Err(fault(format!(
                            "is cut to {limit} tokens, and {lost} `{name}` stand behind them; shorten the text"
                        )));
                    }
                }
                filled.push(fillings);
            }
            Ok(())
        })?;
        if !filled.is_empty() && filled.iter().all(Vec::is_empty) {
            let name = tokenizer.token_text(mask).unwrap_or_default();
            let has = if texts.len() == 1 { "text 1 has no" } else { "none of the texts has a" };
            return Err(Error::Usage(format!("{label}: {has} `{name}` to be filled")));
        }
        Ok(filled)
    }

    /// An error for another task than the graph's.
    fn wants(&self, task: TextTask) -> Result<()> {
        match task == self.task {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "{}: gives no {}; it gives {}",
                self.model.file().label(),
                task.name(),
                self.task.name()
            ))),
        }
    }

    /// Runs texts in batches, in their order.
    fn run(&mut self, inputs: &[Input<'_>], output: &str, take: &mut Take<'_>) -> Result<()> {
        self.cut.clear();
        self.tokens = 0;
        let mut batch = Batch::default();
        let mut first = 0;
        for (n, input) in inputs.iter().enumerate() {
            let encoding = self.encode(*input)?;
            if encoding.cut > 0 {
                self.cut.push(CutText { text: n, tokens: encoding.cut });
            }
            if encoding.ids.is_empty() {
                let label = self.model.file().label();
                return Err(Error::Usage(format!("{label}: text {} is empty; give it a word", n + 1)));
            }
            self.tokens += encoding.ids.len();
            if !batch.ids.is_empty() && batch.ids.len() + encoding.ids.len() > self.batch {
                let rows = self.call(&batch, output)?;
                take(&batch, first, rows)?;
                (batch, first) = (Batch::default(), n);
            }
            batch.push(&encoding);
        }
        if batch.ids.is_empty() {
            return Ok(());
        }
        let rows = self.call(&batch, output)?;
        take(&batch, first, rows)
    }

    fn encode(&self, (text, second): Input<'_>) -> Result<Encoding> {
        let encoded = match second {
            None => self.tokenizer.encode_within(text, self.limit),
            Some(second) => self.tokenizer.encode_pair(text, second, self.limit),
        };
        let encoded =
            encoded.map_err(|source: TokenizerError| Error::Tokenizer { file: self.model.file().label(), source })?;
        check_rows(&self.model, &self.tokenizer, &encoded.ids).map(|()| encoded)
    }

    /// The rows of an output for a batch.
    fn call(&mut self, batch: &Batch, output: &str) -> Result<Vec<Vec<f32>>> {
        let mut inputs: Vec<(String, Tensor)> = Vec::with_capacity(3);
        let mut give = |name: &str, values: &[i64]| -> Result<()> {
            inputs.push((name.to_owned(), tensor(values.to_vec(), values.len())?));
            Ok(())
        };
        give(IDS, &batch.ids)?;
        give(STARTS, &batch.starts)?;
        if self.takes_types {
            give(TYPES, &batch.types)?;
        }
        inputs.extend(self.pictures.iter().map(|vectors| (IMAGE_EMBEDS.to_owned(), vectors.clone())));
        let outputs = self.session.run(&inputs, Rows::All)?;
        let missing = || ExecutorError::Input { name: output.to_owned(), cause: "is no output of this graph".into() };
        let (_, rows) = outputs.into_iter().find(|(name, _)| name == output).ok_or_else(missing)?;
        Ok(rows.to_vec2::<f32>().map_err(ExecutorError::from)?)
    }
}

fn single<'a>(texts: &[&'a str]) -> Vec<Input<'a>> {
    texts.iter().map(|text| (*text, None)).collect()
}
