//! The likeliest cut, whose scores have the greatest sum (Viterbi).

use super::{Cut, Table};
use tallow_format::PieceKind;

/// What an unknown character has less than the least score.
const UNKNOWN: f32 = 10.0;

/// The best cut of the text up to a place.
#[derive(Clone, Copy, Default)]
struct Best {
    score: f32,
    start: usize,
    known: bool,
    found: bool,
}

/// Cuts a text as SentencePiece does, in the same precision: sums are `f32`, and of equal ones the first found stays.
pub(super) fn cut<'a>(text: &'a str, table: &Table) -> Vec<Cut<'a>> {
    let mut best = vec![Best::default(); text.len() + 1];
    let unknown = table.scores.0 - UNKNOWN;
    for (start, c) in text.char_indices() {
        let before = best[start].score;
        let mut offer = |end: usize, sum: f32, known: bool| {
            let target = &mut best[end];
            if !target.found || sum > target.score {
                *target = Best { score: sum, start, known, found: true };
            }
        };
        let mut single = false;
        table.pieces.of(&text.as_bytes()[start..], |entry| {
            let length = entry.text.len();
            let sum = match entry.kind {
                PieceKind::Unused => return,
                // So much that it is always taken.
                PieceKind::User => (f64::from(length as f32 * table.scores.1) - 0.1) as f32 + before,
                _ => entry.score + before,
            };
            single |= length == c.len_utf8();
            offer(start + length, sum, true);
        });
        if !single {
            offer(start + c.len_utf8(), unknown + before, false);
        }
    }
    let mut cuts = Vec::new();
    let mut end = text.len();
    while end > 0 {
        let Best { start, known, .. } = best[end];
        cuts.push((&text[start..end], known));
        end = start;
    }
    cuts.reverse();
    cuts
}
