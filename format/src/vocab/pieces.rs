//! The table `[pieces]`: what SentencePiece's own model cuts text into, apart from the ids that the pieces have.

use std::fmt::Write as _;

use toml::de::{DeTable, DeValue};

use super::read::integer;
use crate::toml_text::{Line, push_quoted};

/// A piece of a SentencePiece model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its text, with `▁` for a space.
    pub text: String,
    /// Its score × `score_scale`.
    pub score: i64,
    /// What it is for.
    pub kind: PieceKind,
}

/// What a piece is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PieceKind {
    /// Text is cut into these.
    #[default]
    Normal,
    /// Stands for what no piece spells.
    Unknown,
    /// Markup, which no text makes.
    Control,
    /// Taken whole wherever the text holds it.
    User,
    /// Left out.
    Unused,
    /// A byte, as `<0x0A>`.
    Byte,
}

impl PieceKind {
    /// Every kind, in the order of SentencePiece's own numbers, which begin with 1.
    pub const ALL: [Self; 6] = [Self::Normal, Self::Unknown, Self::Control, Self::User, Self::Unused, Self::Byte];

    /// Its name in the section.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Unknown => "unknown",
            Self::Control => "control",
            Self::User => "user",
            Self::Unused => "unused",
            Self::Byte => "byte",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Appends the table: `0 = ["▁the", -2345]`, with the kind of those that are not normal behind.
pub(super) fn write(out: &mut String, pieces: &[Piece]) {
    out.push_str("\n[pieces]\n");
    for (at, piece) in pieces.iter().enumerate() {
        // Writing to a String cannot fail, so the results of `write!` are dropped.
        let _ = write!(out, "{at} = [");
        push_quoted(out, &piece.text);
        let _ = write!(out, ", {}", piece.score);
        if piece.kind != PieceKind::Normal {
            let _ = write!(out, ", \"{}\"", piece.kind.name());
        }
        out.push_str("]\n");
    }
}

/// `["…", -1234]`, or with a kind behind.
pub(super) fn line(line: &mut Line<'_>) -> Option<Piece> {
    line.take(b'[')?;
    let text = line.text()?.into_owned();
    line.take(b',')?;
    let negative = line.take(b'-').is_some();
    let size = i64::try_from(line.number()?).ok()?;
    let mut piece = Piece { text, score: if negative { -size } else { size }, kind: PieceKind::Normal };
    if line.take(b',').is_some() {
        piece.kind = PieceKind::from_name(&line.text()?)?;
    }
    line.take(b']')?;
    Some(piece)
}

/// The pieces of a table of any spelling, by their numbers. Errors: the place and the number of an entry that is none.
pub(super) fn table(table: &DeTable<'_>, limit: u64) -> Result<Vec<Piece>, (usize, String)> {
    let mut pieces = Vec::with_capacity(table.len());
    for (key, value) in table {
        let name: &str = key.get_ref();
        let at = name.parse::<u64>().ok().filter(|at| *at < limit);
        match (at, entry(value.get_ref())) {
            (Some(at), Some(piece)) => pieces.push((at, piece)),
            _ => return Err((key.span().start, name.to_owned())),
        }
    }
    pieces.sort_by_key(|(at, _)| *at);
    Ok(pieces.into_iter().map(|(_, piece)| piece).collect())
}

fn entry(value: &DeValue<'_>) -> Option<Piece> {
    let all = value.as_array().filter(|all| all.len() < 4)?;
    let kind = match all.get(2) {
        Some(kind) => PieceKind::from_name(kind.get_ref().as_str()?)?,
        None => PieceKind::Normal,
    };
    let text = all.first()?.get_ref().as_str()?.to_owned();
    Some(Piece { text, score: integer(all.get(1)?.get_ref())?, kind })
}
