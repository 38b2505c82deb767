//! Tokenizers as a `.model` holds them.

use serde_json::Value as Json;
use std::path::Path;
use tallow::executor::tokenizer::{SpecialIds, Tokenizer};
use tallow::format::{Config, Vocab};
use tallow::import::tokenizer::TokenizerText;

/// A tokenizer as a `.model` holds it: its tables are written as text and read again.
pub fn of_model(read: &TokenizerText, source: &Path) -> Tokenizer {
    let case = source.display();
    assert!(read.warnings.is_empty(), "{case}: {:?}", read.warnings);
    let mut text = "[tokenizer]\n".to_owned();
    for (key, value) in &read.settings {
        text += &format!("{key} = {value}\n");
    }
    let config = Config::parse(&text).unwrap();
    let vocab = Vocab::parse(&read.vocab.to_text()).unwrap();
    assert_eq!(vocab, read.vocab, "{case}");
    let ids = SpecialIds { bos: read.ids.bos, eos: read.ids.eos.first().copied() };
    Tokenizer::with_ids(&vocab, &config.tokenizer().unwrap(), ids).unwrap()
}

/// Ids of a list.
pub fn ids(value: &Json) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}
