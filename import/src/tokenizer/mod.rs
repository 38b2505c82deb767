//! From a source's tokenizer to the `vocab` section and the `[tokenizer]` table.

pub mod gguf;
pub mod json;
mod merges;
mod merges_txt;
mod native;
mod pieces;
mod pre;
mod specials;
mod spm;
mod value;
mod vocab_json;
mod vocab_txt;

use serde_json::Value;
use tallow_format::Vocab;

use crate::config::Ids;

/// Largest token id that is read: lists reach up to it.
pub const MAX_TOKEN_ID: u64 = (1 << 22) - 1;

/// A tokenizer as it will be written.
#[derive(Debug)]
pub struct TokenizerText {
    /// Tokens, merges, and tokens matched verbatim.
    pub vocab: Vocab,
    /// Keys of `[tokenizer]`, apart from ids.
    pub settings: Vec<(String, Value)>,
    /// Special tokens that the tokenizer knows by id.
    pub ids: Ids,
    /// One sentence each.
    pub warnings: Vec<String>,
}
