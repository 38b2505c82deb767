//! SentencePiece itself: text is normalised and cut as that library does, and the pieces get the ids that other tokens of the
//! vocabulary say.
//!
//! Tokenizers that keep a SentencePiece model beside a vocabulary of their own (marian, m2m_100) need it: their pieces have
//! other ids than their places in the model, some have none, and what the model does not know may have one. Ids agree with
//! those that `transformers` gives by way of the library.

mod merges;
mod normalize;
mod unigram;

use super::charsmap::Charsmap;
use super::prefixes::Prefixes;
use super::text_index::TextIndex;
use super::{SCORE_SCALE, TokenizerError};
use normalize::Normalizer;
use tallow_format::{Piece, PieceKind, TokenizerConfig, Vocab};

/// A SentencePiece model, with ids for its pieces.
#[derive(Debug)]
pub(super) struct SentencePiece {
    normalizer: Normalizer,
    table: Table,
    algorithm: Algorithm,
    /// Whether unknown characters are spelt in bytes.
    bytes: bool,
    /// Whether `>>xx<<` at the beginning of a text is one token.
    leading_code: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Unigram,
    Merges,
}

/// The pieces that text is cut into.
#[derive(Debug)]
struct Table {
    pieces: Prefixes<Entry>,
    /// Those that are taken whole wherever they stand.
    user: Prefixes<String>,
    /// The least score of a normal piece, and the greatest.
    scores: (f32, f32),
}

/// A piece of the table.
#[derive(Debug)]
struct Entry {
    text: String,
    score: f32,
    kind: PieceKind,
}

impl AsRef<str> for Entry {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// A stretch of the normalised text, and whether a piece stands for it.
type Cut<'a> = (&'a str, bool);

impl SentencePiece {
    /// Errors: no pieces, none for the unknown, or an algorithm that is not known; a broken map of characters.
    pub(super) fn new(vocab: &Vocab, config: &TokenizerConfig) -> Result<Self, TokenizerError> {
        let fault = |cause: String| TokenizerError::BadPieces { cause };
        let algorithm = match config.algorithm.as_deref() {
            None | Some("unigram") => Algorithm::Unigram,
            Some("bpe") => Algorithm::Merges,
            Some(other) => {
                return Err(fault(format!("[tokenizer] algorithm = \"{other}\" is not supported: unigram, bpe")));
            }
        };
        if !vocab.pieces.iter().any(|piece| piece.kind == PieceKind::Unknown) {
            return Err(fault("vocab: [pieces] has none of kind \"unknown\"".to_owned()));
        }
        let charsmap = config.charsmap.as_deref().map(Charsmap::from_base64).transpose()?;
        let table = Table::new(&vocab.pieces, config.score_scale.unwrap_or(SCORE_SCALE).max(1) as f64);
        Ok(Self {
            normalizer: Normalizer {
                charsmap,
                prefix: config.add_prefix_space.unwrap_or(true),
                single: config.single_spaces.unwrap_or(true),
            },
            table,
            algorithm,
            bytes: config.byte_fallback.unwrap_or(false),
            leading_code: config.leading_code.unwrap_or(false),
        })
    }

    /// Appends the ids of a stretch of text. Errors: a piece without an id where there is no `unk`.
    pub(super) fn encode(
        &self,
        text: &str,
        index: &TextIndex,
        unk: Option<u32>,
        ids: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut push = |piece: &str| {
            let id = index.find(piece).or(unk);
            ids.push(id.ok_or_else(|| TokenizerError::Unencodable { what: format!("{piece:?}"), at: 0 })?);
            Ok(())
        };
        let (code, text) = if self.leading_code { leading_code(text) } else { (None, text) };
        if let Some(code) = code {
            push(code)?;
        }
        let text = self.normalizer.apply(text, &self.table.user);
        let cuts = match self.algorithm {
            Algorithm::Unigram => unigram::cut(&text, &self.table),
            Algorithm::Merges => merges::cut(&text, &self.table),
        };
        let mut at = 0;
        let mut cuts = cuts.into_iter().peekable();
        while let Some((piece, known)) = cuts.next() {
            let start = at;
            at += piece.len();
            if known {
                push(piece)?;
                continue;
            }
            if self.bytes {
                piece.bytes().try_for_each(|byte| push(&super::build::byte_token(byte)))?;
                continue;
            }
            // Several unknown stretches in a row are one.
            while let Some((more, _)) = cuts.next_if(|(_, known)| !known) {
                at += more.len();
            }
            push(&text[start..at])?;
        }
        Ok(())
    }
}

impl Table {
    fn new(pieces: &[Piece], scale: f64) -> Self {
        let score = |piece: &Piece| (piece.score as f64 / scale) as f32;
        let normal = || pieces.iter().filter(|piece| piece.kind == PieceKind::Normal).map(score);
        let entries = pieces.iter().filter_map(|piece| match piece.kind {
            PieceKind::Normal | PieceKind::User | PieceKind::Unused => {
                Some(Entry { text: piece.text.clone(), score: score(piece), kind: piece.kind })
            }
            PieceKind::Unknown | PieceKind::Control | PieceKind::Byte => None,
        });
        let user = pieces.iter().filter(|piece| piece.kind == PieceKind::User).map(|piece| piece.text.clone());
        Self {
            pieces: Prefixes::new(entries.collect()),
            user: Prefixes::new(user.collect()),
            // The library begins with the greatest and with the least positive number.
            scores: (normal().fold(f32::MAX, f32::min), normal().fold(f32::MIN_POSITIVE, f32::max)),
        }
    }
}

/// `>>xx<<` at the beginning of a text, and what follows.
fn leading_code(text: &str) -> (Option<&str>, &str) {
    let end = text.starts_with(">>").then(|| text.find("<<")).flatten();
    match end {
        Some(end) => (Some(&text[..end + 2]), &text[end + 2..]),
        None => (None, text),
    }
}

/// The length of the longest user-defined piece that `text` begins with.
fn user_length(user: &Prefixes<String>, text: &str) -> Option<usize> {
    let mut longest = None;
    user.of(text.as_bytes(), |piece| longest = Some(piece.len()));
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocab(kinds: &[(&str, f64, PieceKind)]) -> (Vocab, TextIndex) {
        let piece = |(text, score, kind): &(&str, f64, PieceKind)| Piece {
            text: (*text).to_owned(),
            score: (score * SCORE_SCALE as f64) as i64,
            kind: *kind,
        };
        let index = TextIndex::new(kinds.iter().map(|(text, ..)| Some(*text))).unwrap();
        (Vocab { pieces: kinds.iter().map(piece).collect(), ..Vocab::default() }, index)
    }

    fn encode(algorithm: &str, kinds: &[(&str, f64, PieceKind)], text: &str) -> Vec<u32> {
        let (vocab, index) = vocab(kinds);
        let config = TokenizerConfig { algorithm: Some(algorithm.to_owned()), ..TokenizerConfig::default() };
        let mut ids = Vec::new();
        SentencePiece::new(&vocab, &config).unwrap().encode(text, &index, Some(0), &mut ids).unwrap();
        ids
    }

    const KINDS: [(&str, f64, PieceKind); 8] = [
        ("<unk>", 0.0, PieceKind::Unknown),
        ("▁", -2.0, PieceKind::Normal),
        ("a", -3.0, PieceKind::Normal),
        ("b", -3.0, PieceKind::Normal),
        ("ab", -4.0, PieceKind::Normal),
        ("▁ab", -4.5, PieceKind::Normal),
        ("<u>", 0.0, PieceKind::User),
        ("ba", -1.0, PieceKind::Unused),
    ];

    #[test]
    fn text_is_cut_by_scores() {
        for algorithm in ["unigram", "bpe"] {
            let of = |text: &str| encode(algorithm, &KINDS, text);
            assert_eq!(of("ab"), [5], "{algorithm}");
            assert_eq!(of("  ab  ab "), [5, 5], "{algorithm}");
            assert_eq!(of("xyab"), [1, 0, 4], "{algorithm}");
            assert_eq!(of("ba"), [1, 3, 2], "{algorithm}: an unused piece");
            assert_eq!(of("a<u>b"), [1, 2, 6, 3], "{algorithm}: a user's piece");
            assert_eq!(of(""), [0_u32; 0], "{algorithm}");
        }
    }

    #[test]
    fn leading_codes_are_cut_off() {
        assert_eq!(leading_code(">>ro<< x"), (Some(">>ro<<"), " x"));
        assert_eq!(leading_code(" >>ro<< x"), (None, " >>ro<< x"));
        assert_eq!(leading_code(">>ro x"), (None, ">>ro x"));
    }

    #[test]
    fn what_makes_no_model_is_an_error() {
        let (mut vocab, _) = vocab(&KINDS);
        let config = TokenizerConfig { algorithm: Some("word".to_owned()), ..TokenizerConfig::default() };
        assert!(SentencePiece::new(&vocab, &config).unwrap_err().to_string().contains("\"word\""));
        vocab.pieces.remove(0);
        let error = SentencePiece::new(&vocab, &TokenizerConfig::default()).unwrap_err();
        assert!(error.to_string().contains("\"unknown\""), "{error}");
    }
}
