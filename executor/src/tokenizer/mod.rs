//! Text to token ids and back.
//!
//! Two kinds of byte-pair encoding are written here. *Byte-level*: text is cut into words by a pre-tokeniser, each word becomes
//! its UTF-8 bytes, merges join them. *SentencePiece-type*: spaces become `▁`, the whole text is one word of characters, merges
//! join them, and a character without a token becomes its bytes' tokens `<0x00>`…`<0xFF>`. Results agree with the `tokenizers`
//! library of Hugging Face, against which this is tested; its own tables take some seven times as long to build for a
//! vocabulary of 262,144 tokens and half a million merges. *WordPiece* and *Unigram* are that library's, over words that it
//! cuts. *SentencePiece* is what the library of that name does. Added tokens are matched verbatim before all of them.

mod added;
mod alphabet;
mod bpe;
mod build;
mod charsmap;
mod error;
mod languages;
mod normalize;
mod pieces;
mod prefixes;
mod ranks;
mod sentencepiece;
mod split;
mod template;
mod text_index;

pub use build::SpecialIds;
pub use error::TokenizerError;
pub use languages::Languages;

use added::Matcher;
use bpe::Merges;
use normalize::Normalizer;
use pieces::Pieces;
use sentencepiece::SentencePiece;
use split::PreTokenizer;
use std::borrow::Cow;
use template::Template;
use text_index::TextIndex;
use tokenizers::Decoder as _;
use tokenizers::decoders::wordpiece::WordPiece as WordPieceDecoder;

/// What encoding adds to a text and sees in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the begin and end tokens around the text where the model's configuration says so.
    pub add_special: bool,
    /// Take the text of a special token (`<|im_end|>`) for that token. Without it such text is encoded like any other;
    /// added tokens that are not special are matched either way.
    pub parse_special: bool,
}

impl Default for EncodeOptions {
    /// A plain prompt: begin and end tokens as configured, special tokens seen.
    fn default() -> Self {
        Self { add_special: true, parse_special: true }
    }
}

/// A text, or two, as a model takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens.
    pub ids: Vec<u32>,
    /// The type of each token: which of two texts it belongs to.
    pub types: Vec<u32>,
    /// For each token whether it stands around a text and is not part of one.
    pub around: Vec<bool>,
    /// How many tokens were left out for the length.
    pub cut: usize,
}

/// A vocabulary ready for use. It is immutable and may be shared between threads.
#[derive(Debug)]
pub struct Tokenizer {
    kind: Kind,
    index: TextIndex,
    model: Model,
    /// The token of each byte: of its character in a byte-level vocabulary, `<0x..>` in the other kinds.
    byte_ids: [Option<u32>; 256],
    /// The tokens of bytes that end a word, where these differ from others.
    word_end: Option<WordEnd>,
    pre: PreTokenizer,
    normalizer: Normalizer,
    /// Verbatim tokens matched in the text as it is.
    added: Matcher,
    /// Verbatim tokens matched in the normalised text.
    added_normalized: Matcher,
    /// By id.
    roles: Vec<Role>,
    unk: Option<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    mask: Option<u32>,
    template: Template,
    pair_template: Option<Template>,
    languages: Languages,
    prefix: Prefix,
    max_length: Option<usize>,
    /// Turns WordPiece's tokens into text.
    decoder: WordPieceDecoder,
}

/// How tokens are spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ByteLevel,
    SentencePiece,
    WordPiece,
    Unigram,
    /// Pieces of a SentencePiece model, with ids of their own.
    Pieces,
}

/// What makes tokens of words.
#[derive(Debug)]
enum Model {
    Merges(Merges),
    Pieces(Box<Pieces>),
    SentencePiece(Box<SentencePiece>),
}

/// What stands behind the last byte of a word.
#[derive(Debug)]
struct WordEnd {
    text: String,
    byte_ids: Box<[Option<u32>; 256]>,
}

/// Where a space is put before text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Never,
    /// Before the text, unless it begins with a verbatim token or has one.
    First,
    /// Before every stretch between verbatim tokens that has none.
    Missing,
    /// Before every stretch.
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// No token has this id.
    Missing,
    /// A token that the model makes.
    Normal,
    /// `<0x..>` in a SentencePiece-type or Unigram vocabulary.
    Byte(u8),
    /// A verbatim token.
    Added,
    /// A verbatim token that is markup, not text.
    Special,
}

/// By what scores are multiplied, unless `[tokenizer]` says otherwise.
const SCORE_SCALE: u64 = 1 << 16;
/// SentencePiece's sign for a space.
const SPACE_SIGN: char = '▁';
/// The longest text that is encoded at once, in bytes: places in it are 32 bits wide.
const MAX_TEXT: usize = 1 << 30;

impl Tokenizer {
    /// The ids of a text. Errors: the vocabulary has no token for something in it; the pre-tokeniser's pattern gives up; the
    /// text is longer than 1 GiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenizerError> {
        let ids = self.encode_bare(text, options.parse_special)?;
        Ok(if options.add_special { self.template.fill(&[ids], None).ids } else { ids })
    }

    /// A text with the tokens around it, cut so that it is at most `limit` tokens long. Texts of special tokens are seen.
    /// Errors: as [`Tokenizer::encode`].
    pub fn encode_within(&self, text: &str, limit: Option<usize>) -> Result<Encoding, TokenizerError> {
        Ok(self.template.fill(&[self.encode_bare(text, true)?], limit))
    }

    /// Two texts in one sequence, as models take them that compare texts: `[CLS] a [SEP] b [SEP]` in one manner of several.
    /// The longer of both is cut first. Errors: as [`Tokenizer::encode`]; `[tokenizer]` says nothing about pairs.
    pub fn encode_pair(&self, a: &str, b: &str, limit: Option<usize>) -> Result<Encoding, TokenizerError> {
        let template = self.pair_template.as_ref().ok_or(TokenizerError::NoPairs)?;
        Ok(template.fill(&[self.encode_bare(a, true)?, self.encode_bare(b, true)?], limit))
    }

    /// The ids of a text and nothing around them.
    fn encode_bare(&self, text: &str, special: bool) -> Result<Vec<u32>, TokenizerError> {
        if text.len() > MAX_TEXT {
            return Err(TokenizerError::TextTooLong { bytes: text.len(), limit: MAX_TEXT });
        }
        let mut ids = Vec::with_capacity(text.len() / 4 + 4);
        let push = |ids: &mut Vec<u32>, id| ids.push(id);
        self.added.split(
            text,
            special,
            &mut ids,
            |ids, text| {
                let text = self.normalizer.apply(text)?;
                let plain = |ids: &mut Vec<u32>, text: &str| self.encode_plain(text, ids);
                self.added_normalized.split(&text, special, ids, plain, push)
            },
            push,
        )?;
        Ok(ids)
    }

    /// The text of ids. Bytes that are no UTF-8 become U+FFFD, ids without a token nothing, special tokens their own text
    /// unless `skip_special`. Where the vocabulary puts a space before text, that space is taken off again.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let shown = ids.iter().copied().filter(|&id| !(skip_special && self.is_special(id)));
        if self.kind == Kind::WordPiece {
            let tokens: Vec<String> = shown.filter_map(|id| self.token_text(id)).map(str::to_owned).collect();
            // The library's decoder never fails.
            return self.decoder.decode_chain(tokens).unwrap_or_default().concat();
        }
        let mut bytes = Vec::new();
        for id in shown {
            bytes.extend_from_slice(&self.token_bytes(id));
        }
        let text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if self.trims() {
            return text.trim_matches(is_space).to_owned();
        }
        if self.word_end.is_some() {
            return text.strip_suffix(' ').map(str::to_owned).unwrap_or(text);
        }
        match self.decodes_leading_space() {
            true => text.strip_prefix(' ').map(str::to_owned).unwrap_or(text),
            false => text,
        }
    }

    /// The bytes that a token stands for in decoded text, which need not be whole characters. Empty for an id without a token.
    pub fn token_bytes(&self, id: u32) -> Cow<'_, [u8]> {
        let text = self.index.text(id);
        match (self.role(id), self.kind) {
            (Role::Missing, _) => Cow::Borrowed(&[]),
            (Role::Byte(byte), _) => Cow::Owned(vec![byte]),
            (Role::Normal, Kind::ByteLevel) => {
                let inner = self.word_end.as_ref().and_then(|end| text.strip_suffix(&end.text));
                let space = inner.map(|_| Some(b' '));
                let bytes = inner.unwrap_or(text).chars().map(alphabet::byte_of).chain(space);
                let bytes: Option<Vec<u8>> = bytes.collect();
                bytes.map_or(Cow::Borrowed(text.as_bytes()), Cow::Owned)
            }
            (_, Kind::SentencePiece | Kind::Unigram | Kind::Pieces) if text.contains(SPACE_SIGN) => {
                Cow::Owned(text.replace(SPACE_SIGN, " ").into_bytes())
            }
            (_, Kind::WordPiece) => match text.strip_prefix(&self.decoder.prefix) {
                Some(rest) => Cow::Borrowed(rest.as_bytes()),
                None => Cow::Owned(format!(" {text}").into_bytes()),
            },
            (Role::Normal | Role::Added | Role::Special, _) => Cow::Borrowed(text.as_bytes()),
        }
    }

    /// The text of a token as the vocabulary stores it (`Ġthe`, `▁the`); none for an id without a token.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.has_token(id).then(|| self.index.text(id))
    }

    /// The id of a token by the text that the vocabulary stores for it.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        let verbatim = self.added.find(text).or_else(|| self.added_normalized.find(text));
        verbatim.or_else(|| self.index.find(text))
    }

    /// True for a token that is markup, such as the end of a turn.
    pub fn is_special(&self, id: u32) -> bool {
        self.role(id) == Role::Special
    }

    /// True if a token has this id. Rows of the model's output for other ids are padding.
    pub fn has_token(&self, id: u32) -> bool {
        self.role(id) != Role::Missing
    }

    /// One more than the largest id of a token.
    pub fn vocab_len(&self) -> usize {
        self.roles.len()
    }

    /// The token that begins a sequence, if the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a sequence, if `[tokenizer]` names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token that stands for one to be guessed, if `[tokenizer]` names one.
    pub fn mask(&self) -> Option<u32> {
        self.mask
    }

    /// The most tokens of a text that `[tokenizer]` allows, those around it included.
    pub fn max_length(&self) -> Option<usize> {
        self.max_length
    }

    /// True if encoding with `add_special` puts [`Tokenizer::bos`] first.
    pub fn adds_bos(&self) -> bool {
        self.bos.is_some() && self.template.begin() == self.bos
    }

    /// True if text from the beginning decodes to one leading space too many, which [`Tokenizer::decode`] takes off.
    pub fn decodes_leading_space(&self) -> bool {
        match self.kind {
            Kind::ByteLevel => false,
            Kind::SentencePiece | Kind::Unigram => self.prefix != Prefix::Never,
            Kind::WordPiece | Kind::Pieces => true,
        }
    }

    /// True if decoded text has no white space at its ends.
    pub fn trims(&self) -> bool {
        self.kind == Kind::Pieces
    }

    fn role(&self, id: u32) -> Role {
        self.roles.get(id as usize).copied().unwrap_or(Role::Missing)
    }

    /// Appends the ids of a stretch of text without verbatim tokens.
    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        // Stretches have a verbatim token between them, so that the first comes before any id.
        let prefix = match self.prefix {
            Prefix::First if !ids.is_empty() => Prefix::Never,
            prefix => prefix,
        };
        let merges = match &self.model {
            Model::Merges(merges) => merges,
            Model::Pieces(pieces) => return pieces.encode(text, prefix, ids),
            Model::SentencePiece(model) => return model.encode(text, &self.index, self.unk, ids),
        };
        if self.kind == Kind::ByteLevel {
            let text = match prefix != Prefix::Never && !text.starts_with(' ') {
                true => Cow::Owned(format!(" {text}")),
                false => Cow::Borrowed(text),
            };
            return self.pre.split(&text, &mut |word| self.encode_bytes(word, merges, ids));
        }
        let mut signed = String::with_capacity(text.len() + text.len() / 4 + 3);
        let has_one = text.starts_with([' ', SPACE_SIGN]);
        match prefix {
            Prefix::Always => signed.push(SPACE_SIGN),
            Prefix::First | Prefix::Missing if !has_one => signed.push(SPACE_SIGN),
            Prefix::Never | Prefix::First | Prefix::Missing => {}
        }
        for c in text.chars() {
            signed.push(if c == ' ' { SPACE_SIGN } else { c });
        }
        self.pre.split(&signed, &mut |word| self.encode_chars(word, merges, ids))
    }

    fn encode_bytes(&self, word: &str, merges: &Merges, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if self.pre.whole_words {
            let spelt: String = word.bytes().map(alphabet::char_of).collect();
            let whole = self.index.find(&spelt);
            if let Some(id) = whole.filter(|&id| self.role(id) == Role::Normal) {
                ids.push(id);
                return Ok(());
            }
        }
        let start = ids.len();
        for (at, byte) in word.bytes().enumerate() {
            let byte_ids = match &self.word_end {
                Some(end) if at + 1 == word.len() => &*end.byte_ids,
                _ => &self.byte_ids,
            };
            match byte_ids[usize::from(byte)].or(self.unk) {
                Some(id) => ids.push(id),
                None => {
                    return Err(TokenizerError::Unencodable { what: format!("byte 0x{byte:02X}"), at });
                }
            }
        }
        merges.merge(&self.index, ids, start)
    }

    fn encode_chars(&self, word: &str, merges: &Merges, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let start = ids.len();
        let mut unknown_before = false;
        for (at, c) in word.char_indices() {
            let mut utf8 = [0; 4];
            let utf8 = &*c.encode_utf8(&mut utf8);
            if let Some(id) = self.index.find(utf8) {
                ids.push(id);
                unknown_before = false;
                continue;
            }
            let before = ids.len();
            ids.extend(utf8.bytes().map_while(|byte| self.byte_ids[usize::from(byte)]));
            if ids.len() - before == utf8.len() {
                unknown_before = false;
                continue;
            }
            ids.truncate(before);
            let Some(unk) = self.unk else {
                return Err(TokenizerError::Unencodable { what: format!("{c:?}"), at });
            };
            // Several unknown characters in a row are one unknown token.
            if !unknown_before {
                ids.push(unk);
            }
            unknown_before = true;
        }
        merges.merge(&self.index, ids, start)
    }
}

/// White space as Python's `strip` takes it off.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}
