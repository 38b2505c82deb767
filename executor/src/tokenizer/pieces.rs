//! WordPiece and Unigram: the models of the `tokenizers` library over words cut by its pre-tokenisers.

use super::{Prefix, SCORE_SCALE, SPACE_SIGN, TokenizerError};
use tallow_format::{AddedToken, TokenizerConfig, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{Model as _, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _};

/// A model of the library and what cuts text for it.
#[derive(Debug)]
pub(super) struct Pieces {
    cut: Cut,
    model: Model,
}

/// How text is cut into words.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// At white space, which goes, and around punctuation.
    Bert,
    /// Spaces become `▁`. Each begins a word if `split`; white space is cut out before if `words`.
    Metaspace { words: bool, split: bool },
}

#[derive(Debug)]
enum Model {
    WordPiece(WordPiece),
    Unigram {
        model: Unigram,
        /// The id of each token of the model, which knows no special tokens.
        ids: Vec<u32>,
    },
}

/// What a model of the library holds its tokens in, by their texts.
type Texts<'a> = &'a [Option<&'a str>];

impl Pieces {
    /// WordPiece over `texts`. Errors: a pre-tokeniser that is not supported; `unk` is no token.
    pub(super) fn word_piece(texts: Texts<'_>, unk: &str, config: &TokenizerConfig) -> Result<Self, TokenizerError> {
        let cut = match (config.pre.as_deref(), &config.pattern) {
            (None | Some("bert" | "default"), None) => Cut::Bert,
            (pre, pattern) => return Err(unknown_cut(pre, pattern)),
        };
        // Of two ids with one text the lower is found, as everywhere.
        let ids = texts.iter().enumerate().rev();
        let vocab: WordPieceVocab = ids.filter_map(|(id, text)| Some(((*text)?.to_owned(), id as u32))).collect();
        if !vocab.contains_key(unk) {
            return Err(TokenizerError::NoUnknownToken { text: unk.to_owned() });
        }
        let model = WordPiece::builder()
            .vocab(vocab)
            .unk_token(unk.to_owned())
            .continuing_subword_prefix(config.subword_prefix.clone().unwrap_or_else(|| SUBWORD_PREFIX.to_owned()))
            .max_input_chars_per_word(config.max_word_chars.unwrap_or(MAX_WORD_CHARS))
            .build();
        let model = model.map_err(|e| TokenizerError::Library { message: e.to_string() })?;
        Ok(Self { cut, model: Model::WordPiece(model) })
    }

    /// Unigram over the tokens of `vocab` but special ones, whose texts are no words. Errors: a pre-tokeniser that is not
    /// supported; no scores; `unk` is no token.
    pub(super) fn unigram(
        texts: Texts<'_>,
        vocab: &Vocab,
        verbatim: &[AddedToken],
        unk: &str,
        config: &TokenizerConfig,
    ) -> Result<Self, TokenizerError> {
        let cut = match (config.pre.as_deref(), &config.pattern) {
            (None | Some("metaspace" | "default"), None) => Cut::Metaspace { words: false, split: true },
            (Some("metaspace_whole"), None) => Cut::Metaspace { words: false, split: false },
            (Some("metaspace_words"), None) => Cut::Metaspace { words: true, split: true },
            (pre, pattern) => return Err(unknown_cut(pre, pattern)),
        };
        let scores = vocab.scores.as_ref().ok_or(TokenizerError::NoScores)?;
        let scale = config.score_scale.unwrap_or(SCORE_SCALE).max(1) as f64;
        let score = |id: usize| scores.get(id).map_or(0.0, |&score| score as f64 / scale);
        let (mut tokens, mut ids, mut unk_at) = (Vec::new(), Vec::new(), None);
        for (id, text) in texts.iter().enumerate() {
            let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
            let is_unk = text == unk && unk_at.is_none();
            if is_unk {
                unk_at = Some(tokens.len());
            } else if verbatim.binary_search_by_key(&(id as u32), |token| token.id).is_ok_and(|at| verbatim[at].special)
            {
                continue;
            }
            tokens.push((text.to_owned(), score(id)));
            ids.push(id as u32);
        }
        let unk_at = unk_at.ok_or_else(|| TokenizerError::NoUnknownToken { text: unk.to_owned() })?;
        let byte_fallback = config.byte_fallback.unwrap_or(false);
        let model = Unigram::from(tokens, Some(unk_at), byte_fallback);
        let mut model = model.map_err(|e| TokenizerError::Library { message: e.to_string() })?;
        // What an unknown character costs follows from the least score of all tokens.
        model.min_score = (0..texts.len()).map(score).fold(f64::INFINITY, f64::min);
        Ok(Self { cut, model: Model::Unigram { model, ids } })
    }

    /// Appends the ids of a normalised text; `prefix` says where a space is put before it. Errors: of the library, none for
    /// models that were built here.
    pub(super) fn encode(&self, text: &str, prefix: Prefix, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let fault = |e: tokenizers::Error| TokenizerError::Library { message: e.to_string() };
        let mut words = PreTokenizedString::from(text);
        match self.cut {
            Cut::Bert => BertPreTokenizer.pre_tokenize(&mut words),
            Cut::Metaspace { words: cut_out, split } => {
                let scheme = match prefix {
                    Prefix::Never => PrependScheme::Never,
                    Prefix::First => PrependScheme::First,
                    Prefix::Missing | Prefix::Always => PrependScheme::Always,
                };
                let at_spaces = if cut_out { WhitespaceSplit.pre_tokenize(&mut words) } else { Ok(()) };
                at_spaces.and_then(|()| Metaspace::new(SPACE_SIGN, scheme, split).pre_tokenize(&mut words))
            }
        }
        .map_err(fault)?;
        for (word, _, _) in words.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            match &self.model {
                Model::WordPiece(model) => {
                    ids.extend(model.tokenize(word).map_err(fault)?.iter().map(|token| token.id));
                }
                Model::Unigram { model, ids: of } => {
                    let tokens = model.tokenize(word).map_err(fault)?;
                    ids.extend(tokens.iter().filter_map(|token| of.get(token.id as usize)));
                }
            }
        }
        Ok(())
    }
}

/// The vocabulary that the library's builder takes.
type WordPieceVocab = ahash::AHashMap<String, u32>;

/// What begins a token inside a word, unless `[tokenizer]` says otherwise.
pub(super) const SUBWORD_PREFIX: &str = "##";
const MAX_WORD_CHARS: usize = 100;

fn unknown_cut(pre: Option<&str>, pattern: &Option<String>) -> TokenizerError {
    let name = pattern.as_deref().or(pre).unwrap_or_default();
    TokenizerError::UnknownPre { name: name.to_owned() }
}
