//! What can go wrong with a tokenizer.

use super::normalize::STEPS;
use thiserror::Error;

/// A vocabulary or configuration that makes no tokenizer, or a text that it cannot encode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The model has no tokenizer.
    #[error(
        "the model's vocab section is empty: it has no tokenizer, so give it ids instead of text, or import it again from a folder with the tokenizer's files (`tallow import` warns of those that it cannot take over, and says why)"
    )]
    NoVocabulary,
    /// No pre-tokeniser bears this name.
    #[error(
        "[tokenizer] pre = \"{name}\" is not a pre-tokeniser that is supported; name another (gpt2, llama3, qwen2, default, …) or give its regular expression as `pattern`"
    )]
    UnknownPre {
        /// The value of `pre`.
        name: String,
    },
    /// No normaliser bears this name.
    #[error(
        "[tokenizer] normalizer = \"{name}\" is not supported; supported: {steps}, and several of them joined by commas",
        steps = STEPS
    )]
    UnknownNormalizer {
        /// The name that is not known.
        name: String,
    },
    /// A space is to be put somewhere else.
    #[error("[tokenizer] prefix_space = \"{found}\" is not supported; supported: always, missing, first")]
    UnknownPrefix {
        /// The value of `prefix_space`.
        found: String,
    },
    /// The map of the normaliser's step `precompiled` is missing or broken.
    #[error("[tokenizer] charsmap {cause}; take it from the model's tokenizer.json again")]
    BadCharsmap {
        /// What is wrong.
        cause: String,
    },
    /// A template does not say where the text stands, or names a token that does not exist.
    #[error("[tokenizer] {key} {cause}; it is a list of texts of tokens, with each of its texts ($A, $B) once")]
    BadTemplate {
        /// `template` or `pair_template`.
        key: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// Two texts are given to a tokenizer that takes one.
    #[error("the tokenizer does not say how two texts are put together; give [tokenizer] a `pair_template`")]
    NoPairs,
    /// The model of a WordPiece or Unigram vocabulary needs a token for the unknown.
    #[error("[tokenizer] unk_token: the vocabulary has no token \"{text}\", which this type of tokenizer needs")]
    NoUnknownToken {
        /// Its text.
        text: String,
    },
    /// A Unigram vocabulary without scores.
    #[error("vocab: there is no table [scores], which a tokenizer of type unigram needs")]
    NoScores,
    /// A SentencePiece model that is none, or cuts text in another way.
    #[error("{cause}; import the model again")]
    BadPieces {
        /// What is wrong.
        cause: String,
    },
    /// The `tokenizers` library failed.
    #[error("the tokenizer failed: {message}")]
    Library {
        /// What it says.
        message: String,
    },
    /// The pre-tokeniser's regular expression does not compile.
    #[error("[tokenizer] pattern \"{pattern}\" is not a regular expression: {message}")]
    BadPattern {
        /// The expression.
        pattern: String,
        /// What its compiler says.
        message: String,
    },
    /// The pre-tokeniser's regular expression takes too many steps on a text.
    #[error(
        "[tokenizer] pattern \"{pattern}\" takes too many steps on the text after byte {at}: {message}; give the model a named pre-tokeniser (`pre`), or cut the text"
    )]
    PatternLimit {
        /// The expression.
        pattern: String,
        /// Where in the piece of text it gave up: byte offset.
        at: usize,
        /// What its engine says.
        message: String,
    },
    /// A merge names a token, or makes one, that the vocabulary does not hold.
    #[error(
        "vocab: merge {rank} (\"{left}\" + \"{right}\"): the vocabulary has no token \"{missing}\"; add it to [tokens] or remove the merge"
    )]
    MergeToken {
        /// Rank of the merge, its key in `[merges]`.
        rank: usize,
        /// Left part.
        left: String,
        /// Right part.
        right: String,
        /// The text that is no token.
        missing: String,
    },
    /// A token id is too large to be meant.
    #[error("vocab: token id {id} is above the limit of {limit}")]
    IdTooLarge {
        /// The id.
        id: u32,
        /// The largest that is accepted.
        limit: u32,
    },
    /// The texts of all tokens together, or an added token, are too long.
    #[error("vocab: {what} is {bytes} bytes long, above the limit of {limit}")]
    TooLong {
        /// What is too long.
        what: String,
        /// Its length in bytes.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// A sequence should begin or end with a token that the configuration does not give.
    #[error("[tokenizer] add_{which} = true, but no {which} id is given; set {which}_id")]
    NoSpecialId {
        /// `bos` or `eos`.
        which: &'static str,
    },
    /// A BOS, EOS or other id of the configuration has no token.
    #[error("[tokenizer] {which} = {id}, but the vocabulary has no token with that id")]
    SpecialId {
        /// The key.
        which: &'static str,
        /// Its value.
        id: u32,
    },
    /// The text holds something for which the vocabulary has no token, and there is no token for the unknown.
    #[error(
        "the vocabulary has no token for {what} (byte {at} of the text), and no token for unknown text; remove it from the text"
    )]
    Unencodable {
        /// The character or byte.
        what: String,
        /// Byte offset in the word being encoded.
        at: usize,
    },
    /// The text is too long to be encoded at once.
    #[error("a text of {bytes} bytes is too long to be encoded at once; the limit is {limit}")]
    TextTooLong {
        /// Its length.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
}

impl TokenizerError {
    /// True if the file is sound but asks for something this version does not do.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::UnknownPre { .. } | Self::UnknownNormalizer { .. } | Self::UnknownPrefix { .. })
    }
}
