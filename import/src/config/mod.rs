//! The `config` section: settings of a source in one normal form.
//!
//! [`hf`] and [`gguf`] read the two kinds of source into the same map of Hugging Face's names; [`settings`] turns that map
//! into the `[architecture]` table with every default written out; [`text`] writes the TOML.

mod decoders;
pub mod defaults;
pub mod gguf;
pub mod hf;
mod picture_class;
pub mod processor;
mod rope;
pub mod sampling;
pub mod settings;
mod sparse;
pub mod text;
mod towers;
mod windows;

use serde_json::{Map, Value};

pub use sampling::Sampling;

/// What a source says about its model, apart from tensors and tokenizer.
#[derive(Debug)]
pub struct SourceConfig {
    /// Settings under Hugging Face's names.
    pub settings: Map<String, Value>,
    /// The type's table of keys and defaults.
    pub spec: &'static defaults::TypeSpec,
    /// The settings are the text part of a model that has other towers too.
    pub multimodal: bool,
    /// Defaults of generation.
    pub sampling: Sampling,
    /// Special tokens that the config knows by id.
    pub ids: Ids,
    /// What the source calls the model.
    pub name: Option<String>,
    /// Licence, as the source spells it.
    pub license: Option<String>,
    /// Language codes.
    pub languages: Vec<String>,
    /// `[lineage]`: key and text.
    pub lineage: Vec<(String, String)>,
    /// The `[architecture]` table of a type that a program computes, ready as it is.
    pub towers: Option<Map<String, Value>>,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// Special token ids, as a config names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Begins a text.
    pub bos: Option<u32>,
    /// All that end one, in the order of their sources, without repeats.
    pub eos: Vec<u32>,
    /// Fills up batches.
    pub pad: Option<u32>,
    /// Stands for what the vocabulary lacks.
    pub unk: Option<u32>,
}

impl Ids {
    /// Adds an id that ends a text.
    pub fn add_eos(&mut self, id: u32) {
        if !self.eos.contains(&id) {
            self.eos.push(id);
        }
    }
}
