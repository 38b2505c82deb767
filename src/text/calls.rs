//! What a model makes of texts, one call for each task.

use super::{Encoder, Filling, Label, STARTS, Tag, TextTask};
use crate::{Model, Result};

impl Model {
    /// What the graph makes of texts; `None` where it does not take whole texts, several a call.
    pub fn text_task(&self) -> Option<TextTask> {
        let graph = self.graph().graph();
        graph.input_named(STARTS)?;
        let rows = self.file().config().architecture().usize("vocab_size").ok().flatten();
        let rows = rows.or_else(|| self.tokenizer().ok().map(|t| t.vocab_len()));
        TextTask::of(graph, rows)
    }

    /// Runs texts, many times; it says which ones were cut.
    ///
    /// # Errors
    /// A graph that takes no whole texts; a model without tokenizer.
    pub fn encoder(&self) -> Result<Encoder> {
        Encoder::new(self.clone())
    }

    /// The vector of each text, pooled and normalised as the config says. A text that is too long is cut
    /// ([`Encoder::cut`] tells).
    ///
    /// # Errors
    /// A model that gives no vectors of texts.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.encoder()?.embed(texts)
    }

    /// The labels of each text with their probabilities, the likeliest first. A text that is too long is cut.
    ///
    /// # Errors
    /// A model that does not classify texts.
    pub fn classify(&self, texts: &[&str]) -> Result<Vec<Vec<Label>>> {
        self.encoder()?.classify(texts)
    }

    /// The tokens of each text with the likeliest label of each. A text that is too long is cut.
    ///
    /// # Errors
    /// A model that does not label tokens.
    pub fn tag(&self, texts: &[&str]) -> Result<Vec<Vec<Tag>>> {
        self.encoder()?.tag(texts)
    }

    /// For each mask token of each text the `best` likeliest tokens in its place; nothing for a text without one.
    ///
    /// # Errors
    /// A model that fills no masks; texts none of which has one.
    pub fn fill_mask(&self, texts: &[&str], best: usize) -> Result<Vec<Vec<Vec<Filling>>>> {
        self.encoder()?.fill_mask(texts, best)
    }
}
