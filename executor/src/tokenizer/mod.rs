//! Text to token ids and back.
//!
//! Two kinds of byte-pair encoding are supported. *Byte-level*: text is cut into words by a pre-tokeniser, each word becomes its
//! UTF-8 bytes, merges join them. *SentencePiece-type*: spaces become `▁`, the whole text is one word of characters, merges join
//! them, and a character without a token becomes its bytes' tokens `<0x00>`…`<0xFF>`. Added tokens are matched verbatim before
//! either. Results agree with the `tokenizers` library of Hugging Face, against which this is tested; its own tables take some
//! seven times as long to build for a vocabulary of 262,144 tokens and half a million merges.

mod added;
mod alphabet;
mod bpe;
mod build;
mod error;
mod normalize;
mod ranks;
mod split;
mod text_index;

pub use build::SpecialIds;
pub use error::TokenizerError;

use added::Matcher;
use bpe::Merges;
use normalize::Normalizer;
use split::PreTokenizer;
use std::borrow::Cow;
use text_index::TextIndex;

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

/// A vocabulary ready for use. It is immutable and may be shared between threads.
#[derive(Debug)]
pub struct Tokenizer {
    kind: Kind,
    index: TextIndex,
    merges: Merges,
    /// The token of each byte: of its character in a byte-level vocabulary, `<0x..>` in the other kind.
    byte_ids: [Option<u32>; 256],
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
    add_bos: bool,
    add_eos: bool,
    add_prefix_space: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ByteLevel,
    SentencePiece,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// No token has this id.
    Missing,
    /// A token that merges make.
    Normal,
    /// `<0x..>` in a SentencePiece-type vocabulary.
    Byte(u8),
    /// A verbatim token.
    Added,
    /// A verbatim token that is markup, not text.
    Special,
}

/// SentencePiece's sign for a space.
const SPACE_SIGN: char = '▁';
/// The longest text that is encoded at once, in bytes: places in it are 32 bits wide.
const MAX_TEXT: usize = 1 << 30;

impl Tokenizer {
    /// The ids of a text. Errors: the vocabulary has no token for something in it; the pre-tokeniser's pattern gives up; the
    /// text is longer than 1 GiB.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenizerError> {
        if text.len() > MAX_TEXT {
            return Err(TokenizerError::TextTooLong { bytes: text.len(), limit: MAX_TEXT });
        }
        let mut ids = Vec::with_capacity(text.len() / 4 + 4);
        if options.add_special && self.add_bos {
            ids.extend(self.bos);
        }
        let special = options.parse_special;
        let push = |ids: &mut Vec<u32>, id| ids.push(id);
        self.added.split(
            text,
            special,
            &mut ids,
            |ids, text| {
                let text = self.normalizer.apply(text);
                let plain = |ids: &mut Vec<u32>, text: &str| self.encode_plain(text, ids);
                self.added_normalized.split(&text, special, ids, plain, push)
            },
            push,
        )?;
        if options.add_special && self.add_eos {
            ids.extend(self.eos);
        }
        Ok(ids)
    }

    /// The text of ids. Bytes that are no UTF-8 become U+FFFD, ids without a token nothing, special tokens their own text
    /// unless `skip_special`. Where the vocabulary puts a space before text, that space is taken off again.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            if !(skip_special && self.is_special(id)) {
                bytes.extend_from_slice(&self.token_bytes(id));
            }
        }
        let text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        match self.decodes_leading_space() {
            true => text.strip_prefix(' ').map(str::to_owned).unwrap_or(text),
            false => text,
        }
    }

    /// The bytes that a token stands for in decoded text, which need not be whole characters. Empty for an id without a token.
    pub fn token_bytes(&self, id: u32) -> Cow<'_, [u8]> {
        let text = self.index.text(id);
        match (self.role(id), self.kind) {
            (Role::Byte(byte), _) => Cow::Owned(vec![byte]),
            (Role::Normal, Kind::ByteLevel) => {
                let bytes: Option<Vec<u8>> = text.chars().map(alphabet::byte_of).collect();
                bytes.map_or(Cow::Borrowed(text.as_bytes()), Cow::Owned)
            }
            (_, Kind::SentencePiece) if text.contains(SPACE_SIGN) => {
                Cow::Owned(text.replace(SPACE_SIGN, " ").into_bytes())
            }
            (Role::Missing | Role::Normal | Role::Added | Role::Special, _) => Cow::Borrowed(text.as_bytes()),
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

    /// True if encoding with `add_special` puts [`Tokenizer::bos`] first.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// True if text from the beginning decodes to one leading space too many, which [`Tokenizer::decode`] takes off.
    pub fn decodes_leading_space(&self) -> bool {
        self.kind == Kind::SentencePiece && self.add_prefix_space
    }

    fn role(&self, id: u32) -> Role {
        self.roles.get(id as usize).copied().unwrap_or(Role::Missing)
    }

    /// Appends the ids of a stretch of text without verbatim tokens.
    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        match self.kind {
            Kind::ByteLevel => {
                let text = match self.add_prefix_space && !text.starts_with(' ') {
                    true => Cow::Owned(format!(" {text}")),
                    false => Cow::Borrowed(text),
                };
                self.pre.split(&text, &mut |word| self.encode_bytes(word, ids))
            }
            Kind::SentencePiece => {
                let mut signed = String::with_capacity(text.len() + text.len() / 4 + 3);
                if self.add_prefix_space {
                    signed.push(SPACE_SIGN);
                }
                for c in text.chars() {
                    signed.push(if c == ' ' { SPACE_SIGN } else { c });
                }
                self.pre.split(&signed, &mut |word| self.encode_chars(word, ids))
            }
        }
    }

    fn encode_bytes(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
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
            match self.byte_ids[usize::from(byte)].or(self.unk) {
                Some(id) => ids.push(id),
                None => {
                    return Err(TokenizerError::Unencodable { what: format!("byte 0x{byte:02X}"), at });
                }
            }
        }
        self.merges.merge(&self.index, ids, start)
    }

    fn encode_chars(&self, word: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
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
        self.merges.merge(&self.index, ids, start)
    }
}
