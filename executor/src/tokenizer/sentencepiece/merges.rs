//! Merges by scores: of all neighbours that together are a piece, those of the greatest score are joined, the leftmost first
//! among equals, until none is left.

use super::{Cut, Table, user_length};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use tallow_format::PieceKind;

/// Two neighbours that may be joined.
#[derive(Clone, Copy, PartialEq)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// The length of both, which tells one that is out of date.
    length: usize,
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A stretch of the text; empty once it is part of the one before.
struct Symbol {
    start: usize,
    end: usize,
    before: Option<usize>,
    next: Option<usize>,
    /// A user-defined piece, which joins nothing.
    frozen: bool,
}

struct Word<'a, 't> {
    text: &'a str,
    table: &'t Table,
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Pair>,
    /// Where pieces that are left out were made: from the place of both to that between them.
    made: HashMap<(usize, usize), usize>,
}

/// Cuts a text as SentencePiece does.
pub(super) fn cut<'a>(text: &'a str, table: &Table) -> Vec<Cut<'a>> {
    let mut word = Word::new(text, table);
    for at in 1..word.symbols.len() {
        word.offer(Some(at - 1), Some(at));
    }
    while let Some(pair) = word.queue.pop() {
        word.join(pair);
    }
    let mut cuts = Vec::new();
    let mut at = (!word.symbols.is_empty()).then_some(0);
    while let Some(place) = at {
        let Symbol { start, end, next, .. } = word.symbols[place];
        word.collect(start, end, &mut cuts);
        at = next;
    }
    cuts
}

impl<'a, 't> Word<'a, 't> {
    fn new(text: &'a str, table: &'t Table) -> Self {
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut start = 0;
        while let Some(c) = text[start..].chars().next() {
            let user = user_length(&table.user, &text[start..]);
            let end = start + user.unwrap_or(c.len_utf8());
            let at = symbols.len();
            let next = (end < text.len()).then_some(at + 1);
            symbols.push(Symbol { start, end, before: at.checked_sub(1), next, frozen: user.is_some() });
            start = end;
        }
        Self { text, table, symbols, queue: BinaryHeap::new(), made: HashMap::new() }
    }

    /// Puts two neighbours into the queue, if together they are a piece.
    fn offer(&mut self, left: Option<usize>, right: Option<usize>) {
        let (Some(left), Some(right)) = (left, right) else { return };
        let (a, b) = (&self.symbols[left], &self.symbols[right]);
        if a.frozen || b.frozen {
            return;
        }
        let Some(piece) = self.table.pieces.get(&self.text[a.start..b.end]) else { return };
        if piece.kind == PieceKind::Unused {
            self.made.insert((a.start, b.end), a.end);
        }
        self.queue.push(Pair { score: piece.score, left, right, length: b.end - a.start });
    }

    fn join(&mut self, pair: Pair) {
        let length = |symbol: &Symbol| symbol.end - symbol.start;
        let (a, b) = (length(&self.symbols[pair.left]), length(&self.symbols[pair.right]));
        if a == 0 || b == 0 || a + b != pair.length {
            return;
        }
        let Symbol { end, next, .. } = self.symbols[pair.right];
        self.symbols[pair.right].end = self.symbols[pair.right].start;
        let left = &mut self.symbols[pair.left];
        (left.end, left.next) = (end, next);
        let before = left.before;
        if let Some(next) = next {
            self.symbols[next].before = Some(pair.left);
        }
        self.offer(before, Some(pair.left));
        self.offer(Some(pair.left), next);
    }

    /// Appends a stretch; one that is a piece left out is cut again into what it was made of.
    fn collect(&self, start: usize, end: usize, cuts: &mut Vec<Cut<'a>>) {
        let mut open = vec![(start, end)];
        while let Some((start, end)) = open.pop() {
            let piece = self.table.pieces.get(&self.text[start..end]);
            let unused = piece.is_some_and(|piece| piece.kind == PieceKind::Unused);
            match self.made.get(&(start, end)).filter(|_| unused) {
                Some(&middle) => open.extend([(middle, end), (start, middle)]),
                None => cuts.push((&self.text[start..end], piece.is_some())),
            }
        }
    }
}
