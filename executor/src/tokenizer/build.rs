//! Building a tokenizer from the `vocab` section and `[tokenizer]`.

use super::added::{Matcher, Verbatim};
use super::bpe::Merges;
use super::normalize::Normalizer;
use super::split::PreTokenizer;
use super::text_index::TextIndex;
use super::{Kind, Role, Tokenizer, TokenizerError, alphabet};
use std::collections::HashSet;
use tallow_format::{AddedToken, TokenizerConfig, TokenizerKind, Vocab};

/// Ids that the configuration gives outside `[tokenizer]`'s texts; they win over those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// The token that begins a sequence.
    pub bos: Option<u32>,
    /// The token that ends a sequence.
    pub eos: Option<u32>,
}

/// Above the ids of any vocabulary, and small enough to be allocated.
const MAX_ID: u32 = 1 << 24;

impl Tokenizer {
    /// A tokenizer whose begin and end tokens are those that `config` names by their texts.
    ///
    /// Absent settings: `type` is told from the vocabulary; `pre` is `gpt2` for byte-level vocabularies and nothing for
    /// SentencePiece-type ones, where `default` is nothing too; `add_bos` and `add_eos` are off; `add_prefix_space` is off for
    /// the former and on for the latter; `byte_fallback` is on where the vocabulary has byte tokens.
    ///
    /// Errors: a setting that is not supported; begin or end tokens to be added and not known; an empty vocabulary. Merges are
    /// not checked: one over texts that are no tokens has no effect, one that makes a text that is no token is an error when a
    /// text needs it.
    pub fn new(vocab: &Vocab, config: &TokenizerConfig) -> Result<Self, TokenizerError> {
        Self::with_ids(vocab, config, SpecialIds::default())
    }

    /// The same, with ids for the begin and end tokens.
    pub fn with_ids(vocab: &Vocab, config: &TokenizerConfig, ids: SpecialIds) -> Result<Self, TokenizerError> {
        if vocab.is_empty() {
            return Err(TokenizerError::NoVocabulary);
        }
        let verbatim = vocab.verbatim();
        let texts = texts(vocab, &verbatim)?;
        let index = TextIndex::new(texts.iter().copied())?;
        let kind = kind(config, &index)?;
        let merges = Merges::new(vocab.merges.iter(), &index);
        let pre = pre_tokenizer(kind, config)?;
        let normalizer = Normalizer::named(config.normalizer.as_deref().unwrap_or("none"))?;

        let mut roles: Vec<Role> = texts.iter().map(|text| text.map_or(Role::Missing, |_| Role::Normal)).collect();
        let byte_ids = byte_ids(kind, config, &index);
        let verbatim = without_merged_markers(vocab, &verbatim, &merges, &index);
        for token in &verbatim {
            roles[token.id as usize] = match token.special {
                true => Role::Special,
                false => Role::Added,
            };
        }
        if kind == Kind::SentencePiece {
            for (byte, id) in (0..=255).zip(byte_ids) {
                if let Some(role) = id.and_then(|id| roles.get_mut(id as usize)) {
                    *role = Role::Byte(byte);
                }
            }
        }

        let named = |text: &Option<String>| text.as_deref().and_then(|text| find(text, &verbatim, &index));
        let bos = ids.bos.or_else(|| named(&config.bos_token));
        let eos = ids.eos.or_else(|| named(&config.eos_token));
        let (add_bos, add_eos) = (config.add_bos == Some(true), config.add_eos == Some(true));
        for (which, key, id, add) in [("bos", "bos_id", bos, add_bos), ("eos", "eos_id", eos, add_eos)] {
            let Some(id) = id else {
                if add {
                    return Err(TokenizerError::NoSpecialId { which });
                }
                continue;
            };
            match roles.get_mut(id as usize) {
                Some(role @ Role::Normal) => *role = Role::Special,
                None | Some(Role::Missing) => {
                    return Err(TokenizerError::SpecialId { which: key, id });
                }
                Some(Role::Byte(_) | Role::Added | Role::Special) => {}
            }
        }
        let unk = match &config.unk_token {
            Some(_) => named(&config.unk_token),
            None if kind == Kind::SentencePiece => named(&Some("<unk>".to_owned())),
            None => None,
        };

        let (normalized, raw): (Vec<_>, Vec<_>) = verbatim.into_iter().partition(|token| token.normalized);
        let raw = raw.into_iter().map(|token| matched(token.text.clone(), &token));
        let normalized = normalized
            .iter()
            .map(|token| matched(normalizer.apply(&spaces_signed(kind, &token.text)).into_owned(), token));
        Ok(Self {
            added: Matcher::new(raw.collect())?,
            added_normalized: Matcher::new(normalized.collect())?,
            kind,
            index,
            merges,
            byte_ids,
            pre,
            normalizer,
            roles,
            unk,
            bos,
            eos,
            add_bos,
            add_eos,
            add_prefix_space: config.add_prefix_space.unwrap_or(kind == Kind::SentencePiece),
        })
    }
}

/// A verbatim token given in SentencePiece's spelling is matched in text, where a space is a space.
fn spaces_signed(kind: Kind, text: &str) -> String {
    match kind {
        Kind::SentencePiece => text.replace(super::SPACE_SIGN, " "),
        Kind::ByteLevel => text.to_owned(),
    }
}

fn matched(text: String, token: &AddedToken) -> Verbatim {
    Verbatim { id: token.id, text, special: token.special, lstrip: token.lstrip, rstrip: token.rstrip }
}

/// The text of every id, verbatim tokens' included.
fn texts<'a>(vocab: &'a Vocab, verbatim: &'a [AddedToken]) -> Result<Vec<Option<&'a str>>, TokenizerError> {
    let last = verbatim.iter().map(|token| token.id).max();
    let length = vocab.tokens.len().max(last.map_or(0, |id| id as usize + 1));
    if length > MAX_ID as usize {
        return Err(TokenizerError::IdTooLarge {
            id: u32::try_from(length - 1).unwrap_or(u32::MAX),
            limit: MAX_ID - 1,
        });
    }
    let mut texts: Vec<Option<&str>> = vocab.tokens.iter().map(Option::as_deref).collect();
    texts.resize(length, None);
    for token in verbatim {
        texts[token.id as usize] = Some(&token.text);
    }
    Ok(texts)
}

fn kind(config: &TokenizerConfig, index: &TextIndex) -> Result<Kind, TokenizerError> {
    match config.kind {
        Some(TokenizerKind::ByteLevelBpe) => Ok(Kind::ByteLevel),
        Some(TokenizerKind::SentencePieceBpe) => Ok(Kind::SentencePiece),
        Some(TokenizerKind::Bpe) | None => {
            let byte_tokens = index.find("▁").is_some() && index.find(&byte_token(b'\n')).is_some();
            match config.byte_fallback.unwrap_or(byte_tokens) {
                true => Ok(Kind::SentencePiece),
                false => Ok(Kind::ByteLevel),
            }
        }
        Some(kind @ (TokenizerKind::WordPiece | TokenizerKind::Unigram)) => {
            Err(TokenizerError::UnsupportedKind { kind: kind.name().to_owned() })
        }
    }
}

fn pre_tokenizer(kind: Kind, config: &TokenizerConfig) -> Result<PreTokenizer, TokenizerError> {
    match (config.pattern.as_deref(), config.pre.as_deref(), kind) {
        (Some(pattern), ..) => PreTokenizer::from_pattern(pattern),
        (_, Some("none"), _) | (_, None | Some("default"), Kind::SentencePiece) => Ok(PreTokenizer::none()),
        (_, Some(name), _) => PreTokenizer::named(name),
        (_, None, Kind::ByteLevel) => PreTokenizer::named("gpt2"),
    }
}

fn byte_token(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

fn byte_ids(kind: Kind, config: &TokenizerConfig, index: &TextIndex) -> [Option<u32>; 256] {
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        match kind {
            Kind::ByteLevel => index.find(alphabet::char_of(byte).encode_utf8(&mut [0; 4])),
            Kind::SentencePiece if config.byte_fallback == Some(false) => None,
            Kind::SentencePiece => index.find(&byte_token(byte)),
        }
    })
}

/// The verbatim tokens less those that only look like markup (`<|…|>`) and that merges make: these are words.
fn without_merged_markers(
    vocab: &Vocab,
    verbatim: &[AddedToken],
    merges: &Merges,
    index: &TextIndex,
) -> Vec<AddedToken> {
    let declared: HashSet<u32> = vocab.added.iter().map(|token| token.id).collect();
    let is_markup = |token: &&AddedToken| declared.contains(&token.id) || !merges.make(&token.text, index);
    verbatim.iter().filter(is_markup).cloned().collect()
}

fn find(text: &str, verbatim: &[AddedToken], index: &TextIndex) -> Option<u32> {
    let token = verbatim.iter().find(|token| token.text == text);
    token.map(|token| token.id).or_else(|| index.find(text))
}
