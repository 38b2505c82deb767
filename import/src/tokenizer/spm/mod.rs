//! Files of SentencePiece: `spiece.model`, `tokenizer.model`, `source.spm` and other names.
//!
//! A file is a protocol buffer, `ModelProto`: the pieces with their scores (field 1), what training was told (2) and how text
//! is normalised (3).

mod wire;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tallow_format::PieceKind;
use wire::{Message, Wire};

use super::MAX_TOKEN_ID;
use super::json::MOST_SCORE;
use crate::error::{ImportError, Result, clip};

/// The largest file that is read: one of 256,000 pieces has 5 MB.
const MAX_FILE: u64 = 64 << 20;
/// The longest piece in bytes: all its splits are looked up.
const MAX_PIECE: usize = 1024;

/// A SentencePiece model.
#[derive(Debug)]
pub(super) struct Spm {
    pub(super) path: PathBuf,
    /// Text, score and kind of each piece; their places are their ids.
    pub(super) pieces: Vec<(String, f32, PieceKind)>,
    /// Whether text is cut by merges, and not by the likeliest cut.
    pub(super) merges: bool,
    /// The place of the piece for the unknown.
    pub(super) unk: usize,
    pub(super) byte_fallback: bool,
    /// The map of characters, empty where there is none.
    pub(super) charsmap: Vec<u8>,
    /// A space is put before text.
    pub(super) prefix: bool,
    /// Spaces at the ends and repeated ones go.
    pub(super) single_spaces: bool,
}

/// Settings as they stand in the file.
struct Settings {
    kind: u64,
    byte_fallback: bool,
    suffix: bool,
    prefix: bool,
    single_spaces: bool,
    escape: bool,
    charsmap: Vec<u8>,
    denormalizes: bool,
}

impl Spm {
    /// Reads a file. Errors: it is no such model, broken or damaged, or cuts text in a way that is not read.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = crate::files::read(path, MAX_FILE, "a SentencePiece model")?;
        let message = Message::new(path, &bytes);
        let mut settings = Settings {
            kind: 1,
            byte_fallback: false,
            suffix: false,
            prefix: true,
            single_spaces: true,
            escape: true,
            charsmap: Vec::new(),
            denormalizes: false,
        };
        let mut pieces = Vec::new();
        message.fields(|number, wire| {
            match (number, wire) {
                (1, Wire::Bytes(_)) if pieces.len() as u64 > MAX_TOKEN_ID => {
                    return Err(message.broken(0, format!("there are more than {} pieces", MAX_TOKEN_ID + 1)));
                }
                (1, Wire::Bytes(one)) => pieces.push(piece(one, pieces.len())?),
                (2, Wire::Bytes(trainer)) => settings.trainer(trainer)?,
                (3, Wire::Bytes(normalizer)) => settings.normalizer(normalizer)?,
                (5, Wire::Bytes(denormalizer)) => denormalizer.fields(|number, wire| {
                    settings.denormalizes |= matches!((number, wire), (2, Wire::Bytes(map)) if !map.bytes().is_empty());
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        settings.check(path)?;
        let unk = check(&pieces, &settings, path)?;
        Ok(Self {
            path: path.to_owned(),
            pieces,
            merges: settings.kind == 2,
            unk,
            byte_fallback: settings.byte_fallback,
            charsmap: settings.charsmap,
            prefix: settings.prefix,
            single_spaces: settings.single_spaces,
        })
    }

    /// The map of characters in base64; `None` where there is none.
    pub(super) fn charsmap(&self) -> Option<String> {
        (!self.charsmap.is_empty()).then(|| base64::encode(&self.charsmap))
    }
}

/// A piece: its text (field 1), score (2) and kind (3).
fn piece(message: Message<'_>, at: usize) -> Result<(String, f32, PieceKind)> {
    let (mut text, mut score, mut kind) = ("", 0.0, PieceKind::Normal);
    message.fields(|number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => text = bytes.text(&format!("the text of piece {at}"))?,
            (2, Wire::Float(found)) => score = found,
            (3, Wire::Number(n)) => {
                let known = n.checked_sub(1).and_then(|n| PieceKind::ALL.get(usize::try_from(n).ok()?));
                kind = *known
                    .ok_or_else(|| message.broken(0, format!("piece {at} has the kind {n}, and 1 to 6 are known")))?;
            }
            _ => {}
        }
        Ok(())
    })?;
    if text.is_empty() {
        return Err(message.broken(0, format!("piece {at} has no text")));
    }
    if text.len() > MAX_PIECE {
        return Err(message.broken(0, format!("piece {at} has {} bytes; at most {MAX_PIECE} are read", text.len())));
    }
    if score.is_nan() || f64::from(score).abs() >= MOST_SCORE {
        return Err(message.broken(0, format!("piece {at} has the score {score}; scores lie between ±{MOST_SCORE}")));
    }
    Ok((text.to_owned(), score, kind))
}

impl Settings {
    fn trainer(&mut self, message: Message<'_>) -> Result<()> {
        message.fields(|number, wire| {
            match (number, wire) {
                (3, Wire::Number(n)) => self.kind = n,
                (24, Wire::Number(n)) => self.suffix = n != 0,
                (35, Wire::Number(n)) => self.byte_fallback = n != 0,
                _ => {}
            }
            Ok(())
        })
    }

    fn normalizer(&mut self, message: Message<'_>) -> Result<()> {
        message.fields(|number, wire| {
            match (number, wire) {
                (2, Wire::Bytes(map)) => self.charsmap = map.bytes().to_vec(),
                (3, Wire::Number(n)) => self.prefix = n != 0,
                (4, Wire::Number(n)) => self.single_spaces = n != 0,
                (5, Wire::Number(n)) => self.escape = n != 0,
                _ => {}
            }
            Ok(())
        })
    }

    /// An error for what is not read.
    fn check(&self, path: &Path) -> Result<()> {
        let refused = |place: &str, what: &str| {
            Err(ImportError::unsupported(
                path,
                format!("`{place}`"),
                format!("{what} is not read"),
                "Models of type unigram and bpe are read; without its tokenizer files the model is imported to take ids.",
            ))
        };
        match self.kind {
            1 | 2 => {}
            3 => return refused("trainer_spec.model_type", "a model of type `word`"),
            4 => return refused("trainer_spec.model_type", "a model of type `char`"),
            other => return refused("trainer_spec.model_type", &format!("a model of type {other}")),
        }
        if self.suffix {
            return refused("trainer_spec.treat_whitespace_as_suffix", "`▁` behind words instead of before them");
        }
        if !self.escape {
            return refused("normalizer_spec.escape_whitespaces", "a model that keeps spaces instead of `▁`");
        }
        if self.denormalizes {
            return refused("denormalizer_spec", "a map of characters for decoded text");
        }
        Ok(())
    }
}

/// The place of the piece for the unknown, once the pieces are what SentencePiece itself takes.
fn check(pieces: &[(String, f32, PieceKind)], settings: &Settings, path: &Path) -> Result<usize> {
    let broken = |at: usize, cause: String| {
        Err(ImportError::malformed(path, format!("piece {at}"), cause, "Download the file again, or train it anew."))
    };
    let (mut words, mut marks) = (HashSet::new(), HashSet::new());
    let (mut unk, mut bytes) = (None, 0);
    for (at, (text, _, kind)) in pieces.iter().enumerate() {
        let seen = match kind {
            PieceKind::Normal | PieceKind::User | PieceKind::Unused => &mut words,
            PieceKind::Unknown | PieceKind::Control | PieceKind::Byte => &mut marks,
        };
        if !seen.insert(text.as_str()) {
            return broken(at, format!("`{}` stands there twice", clip(text)));
        }
        match kind {
            PieceKind::Unknown if unk.is_some() => {
                return broken(at, "it is a second piece for what is unknown".into());
            }
            PieceKind::Unknown => unk = Some(at),
            PieceKind::Byte if !is_byte(text) => return broken(at, format!("`{}` is no byte as <0x0A>", clip(text))),
            PieceKind::Byte => bytes += 1,
            _ => {}
        }
    }
    match unk {
        None => broken(pieces.len(), "no piece stands for what is unknown".into()),
        Some(_) if settings.byte_fallback && bytes != 256 => {
            broken(pieces.len(), format!("unknown characters are spelt in bytes, and {bytes} of 256 are there"))
        }
        Some(at) => Ok(at),
    }
}

fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F')))
}
