//! Building a tokenizer from the `vocab` section and `[tokenizer]`.

use super::added::{Matcher, Verbatim};
use super::bpe::Merges;
use super::languages::Languages;
use super::normalize::Normalizer;
use super::pieces::{Pieces, SUBWORD_PREFIX};
use super::sentencepiece::SentencePiece;
use super::split::PreTokenizer;
use super::template::Template;
use super::text_index::TextIndex;
use super::{Kind, Model, Prefix, Role, Tokenizer, TokenizerError, WordEnd, WordPieceDecoder, alphabet};
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
    /// Absent settings: `type` is told from the vocabulary; `pre` is `gpt2` for byte-level vocabularies, `bert` for WordPiece,
    /// `metaspace` for Unigram and nothing for SentencePiece-type ones, where `default` is nothing too; `add_bos` and `add_eos`
    /// are off; `add_prefix_space` is on for SentencePiece-type and Unigram vocabularies and else off; `byte_fallback` is on
    /// where a SentencePiece-type vocabulary has byte tokens; `unk_token` is `[UNK]` for WordPiece and else `<unk>`.
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
        let kind = kind(config, &index);
        let unk_text = config.unk_token.as_deref().unwrap_or(if kind == Kind::WordPiece { "[UNK]" } else { "<unk>" });
        let (model, pre) = match kind {
            Kind::ByteLevel | Kind::SentencePiece => {
                (Model::Merges(Merges::new(vocab.merges.iter(), &index)), pre_tokenizer(kind, config)?)
            }
            Kind::WordPiece => {
                (Model::Pieces(Box::new(Pieces::word_piece(&texts, unk_text, config)?)), PreTokenizer::none())
            }
            Kind::Unigram => {
                let pieces = Pieces::unigram(&texts, vocab, &verbatim, unk_text, config)?;
                (Model::Pieces(Box::new(pieces)), PreTokenizer::none())
            }
            Kind::Pieces => {
                let model = SentencePiece::new(vocab, config)?;
                (Model::SentencePiece(Box::new(model)), PreTokenizer::none())
            }
        };
        let normalizer = Normalizer::named(config.normalizer.as_deref().unwrap_or("none"), config.charsmap.as_deref())?;

        let mut roles: Vec<Role> = texts.iter().map(|text| text.map_or(Role::Missing, |_| Role::Normal)).collect();
        let byte_ids = byte_ids(kind, config, &index);
        let verbatim = without_merged_markers(vocab, &verbatim, &model, &index);
        for token in &verbatim {
            roles[token.id as usize] = match token.special {
                true => Role::Special,
                false => Role::Added,
            };
        }
        if kind != Kind::ByteLevel {
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
                if add && config.template.is_none() {
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
        let unk = match (&config.unk_token, kind) {
            (None, Kind::ByteLevel) => None,
            _ => find(unk_text, &verbatim, &index),
        };
        let token = |text: &str| find(text, &verbatim, &index);
        let template = match &config.template {
            Some(entries) => Template::new("template", entries, 1, &token)?,
            None => Template::around(bos.filter(|_| add_bos), eos.filter(|_| add_eos)),
        };
        let pair = config.pair_template.as_ref();
        let pair_template = pair.map(|entries| Template::new("pair_template", entries, 2, &token)).transpose()?;
        let languages = Languages::new(config, &token)?;
        let word_end = config.word_end.as_ref().filter(|end| !end.is_empty() && kind == Kind::ByteLevel).map(|end| {
            let id = |byte: usize| index.find(&format!("{}{end}", alphabet::char_of(byte as u8)));
            WordEnd { text: end.clone(), byte_ids: Box::new(std::array::from_fn(id)) }
        });
        let subword_prefix = config.subword_prefix.as_deref().unwrap_or(SUBWORD_PREFIX);
        let mask = named(&config.mask_token);

        let (normalized, raw): (Vec<_>, Vec<_>) = verbatim.into_iter().partition(|token| token.normalized);
        let raw = raw.into_iter().map(|token| matched(token.text.clone(), &token));
        let normalized = normalized
            .iter()
            .map(|token| Ok(matched(normalizer.apply(&spaces_signed(kind, &token.text))?.into_owned(), token)))
            .collect::<Result<Vec<_>, TokenizerError>>()?;
        Ok(Self {
            added: Matcher::new(raw.collect())?,
            added_normalized: Matcher::new(normalized)?,
            kind,
            index,
            model,
            byte_ids,
            word_end,
            pre,
            normalizer,
            roles,
            unk,
            bos,
            eos,
            mask,
            template,
            pair_template,
            languages,
            prefix: prefix(kind, config)?,
            max_length: config.max_length,
            decoder: WordPieceDecoder::new(subword_prefix.to_owned(), config.cleanup.unwrap_or(false)),
        })
    }
}

/// Where a space is put before text.
fn prefix(kind: Kind, config: &TokenizerConfig) -> Result<Prefix, TokenizerError> {
    let wanted = config.add_prefix_space.unwrap_or(matches!(kind, Kind::SentencePiece | Kind::Unigram));
    match (config.prefix_space.as_deref(), wanted) {
        (None | Some("always" | "missing" | "first"), false) => Ok(Prefix::Never),
        (None | Some("always"), true) => Ok(Prefix::Always),
        (Some("missing"), true) => Ok(Prefix::Missing),
        (Some("first"), true) => Ok(Prefix::First),
        (Some(other), _) => Err(TokenizerError::UnknownPrefix { found: other.to_owned() }),
    }
}

/// A verbatim token given in SentencePiece's spelling is matched in text, where a space is a space.
fn spaces_signed(kind: Kind, text: &str) -> String {
    match kind {
        Kind::SentencePiece => text.replace(super::SPACE_SIGN, " "),
        Kind::ByteLevel | Kind::WordPiece | Kind::Unigram | Kind::Pieces => text.to_owned(),
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

fn kind(config: &TokenizerConfig, index: &TextIndex) -> Kind {
    match config.kind {
        Some(TokenizerKind::ByteLevelBpe) => Kind::ByteLevel,
        Some(TokenizerKind::SentencePieceBpe) => Kind::SentencePiece,
        Some(TokenizerKind::WordPiece) => Kind::WordPiece,
        Some(TokenizerKind::Unigram) => Kind::Unigram,
        Some(TokenizerKind::SentencePiece) => Kind::Pieces,
        Some(TokenizerKind::Bpe) | None => {
            let byte_tokens = index.find("▁").is_some() && index.find(&byte_token(b'\n')).is_some();
            match config.byte_fallback.unwrap_or(byte_tokens) {
                true => Kind::SentencePiece,
                false => Kind::ByteLevel,
            }
        }
    }
}

fn pre_tokenizer(kind: Kind, config: &TokenizerConfig) -> Result<PreTokenizer, TokenizerError> {
    match (config.pattern.as_deref(), config.pre.as_deref(), kind) {
        (Some(pattern), ..) => PreTokenizer::from_pattern(pattern),
        (_, None, Kind::ByteLevel) => PreTokenizer::named("gpt2"),
        (_, Some("none"), _) | (_, None, _) | (_, Some("default"), Kind::SentencePiece) => Ok(PreTokenizer::none()),
        (_, Some(name), _) => PreTokenizer::named(name),
    }
}

pub(super) fn byte_token(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

fn byte_ids(kind: Kind, config: &TokenizerConfig, index: &TextIndex) -> [Option<u32>; 256] {
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        match (kind, config.byte_fallback) {
            (Kind::ByteLevel, _) => index.find(alphabet::char_of(byte).encode_utf8(&mut [0; 4])),
            (Kind::SentencePiece, None | Some(true)) | (Kind::Unigram | Kind::Pieces, Some(true)) => {
                index.find(&byte_token(byte))
            }
            (Kind::SentencePiece | Kind::Unigram | Kind::WordPiece | Kind::Pieces, _) => None,
        }
    })
}

/// The verbatim tokens less those that only look like markup (`<|…|>`) and that merges make: these are words.
fn without_merged_markers(vocab: &Vocab, verbatim: &[AddedToken], model: &Model, index: &TextIndex) -> Vec<AddedToken> {
    let Model::Merges(merges) = model else { return verbatim.to_vec() };
    let declared: HashSet<u32> = vocab.added.iter().map(|token| token.id).collect();
    let is_markup = |token: &&AddedToken| declared.contains(&token.id) || !merges.make(&token.text, index);
    verbatim.iter().filter(is_markup).cloned().collect()
}

fn find(text: &str, verbatim: &[AddedToken], index: &TextIndex) -> Option<u32> {
    let token = verbatim.iter().find(|token| token.text == text);
    token.map(|token| token.id).or_else(|| index.find(text))
}
