//! Places that differ in the same way, folded by layer.

use super::homes::{Home, inner, known, ranges};
use super::pieces::{Piece, View};
use super::side::{Item, Side};
use super::types::{Change, Entry, Kind, Layers, Place, Spot};
use super::words::Words;
use crate::NodeId;
use crate::dump::names::skeleton;
use crate::dump::scopes::noun;
use crate::text::{Labels, Line};
use indexmap::IndexMap;
use std::ops::Range;

/// How many statements of the first place are shown on each side.
pub(super) const MOST_SHOWN: usize = 64;

/// What places must share to be one entry.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    /// The words, without numbers in names and without names of values.
    words: String,
    /// The weights near it.
    near: String,
    prefix: Option<u32>,
}

impl View<'_, '_> {
    /// The entries, in order of their first places.
    pub fn entries(&self) -> Vec<Entry> {
        let pieces = self.pieces();
        if pieces.is_empty() {
            return Vec::new();
        }
        let mut folded: IndexMap<Key, Vec<usize>> = IndexMap::new();
        for (i, piece) in pieces.iter().enumerate() {
            let words = self.words(piece, false);
            let near = if words.placed { String::new() } else { skeleton(&self.near(piece)) };
            let key = Key {
                kind: words.kind,
                words: skeleton(&words.text),
                near,
                prefix: self.home(piece).map(|home| home.prefix),
            };
            folded.entry(key).or_default().push(i);
        }
        let labels = (Labels::new(self.left.graph), Labels::new(self.right.graph));
        let entry = |members: Vec<usize>| {
            let members: Vec<&Piece> = members.into_iter().map(|i| &pieces[i]).collect();
            self.entry(&members, &labels)
        };
        folded.into_values().filter_map(entry).collect()
    }

    fn entry(&self, pieces: &[&Piece], labels: &(Labels, Labels)) -> Option<Entry> {
        let first = *pieces.first()?;
        let words = self.words(first, pieces.len() == 1);
        let layers = self.layers(pieces);
        let text = self.line(pieces, &words, layers.as_ref());
        let (left, right) = self.statements(first, labels);
        let spots = pieces.iter().map(|piece| self.spot(piece)).collect();
        Some(Entry { kind: words.kind, text, layers, spots, left, right })
    }

    /// `in layers 0-27: Silu becomes Gelu (mlp.act)`.
    fn line(&self, pieces: &[&Piece], words: &Words, layers: Option<&Layers>) -> String {
        let mut text = words.text.clone();
        let whole_names = matches!(words.kind, Kind::Weight | Kind::Input | Kind::Output);
        if pieces.len() > 1 {
            text = self.starred(pieces, text);
        }
        if !words.placed
            && let Some(tag) = self.tag(pieces)
        {
            text.push_str(&format!(" ({tag})"));
        }
        match (layers, pieces.len()) {
            (None, 1) => text,
            (None, n) => format!("in {n} places: {text}"),
            (Some(_), 1) if whole_names => text,
            (Some(layers), n) => format!("in {}: {text}", layer_words(layers, n)),
        }
    }

    /// Where it is, by names: `mlp.act`.
    fn tag(&self, pieces: &[&Piece]) -> Option<String> {
        // A name that the values have in all places, but for the layer.
        let mut names = pieces.iter().map(|piece| self.own_name(piece).map(inner));
        let name = names.next().flatten();
        match name {
            Some(name) if names.all(|other| other == Some(name)) => Some(name.to_owned()),
            Some(_) | None => {
                let near = self.near(pieces.first()?);
                (!near.is_empty()).then_some(near)
            }
        }
    }

    fn own_name(&self, piece: &Piece) -> Option<&str> {
        let (x, y) = self.first_nodes(piece);
        x.and_then(|x| self.left.value_name(x)).or_else(|| y.and_then(|y| self.right.value_name(y)))
    }

    /// Weights near a piece: `self_attn.q_proj`.
    fn near(&self, piece: &Piece) -> String {
        let (x, y) = self.first_nodes(piece);
        let left = || x.map(|x| self.homes.near(self.left, true, x));
        let right = || y.map(|y| self.homes.near(self.right, false, y));
        let names = if self.flipped { right().or_else(left) } else { left().or_else(right) };
        let short = |name: &str| name.strip_suffix(".weight").unwrap_or(name).to_owned();
        let names: Vec<String> = names.unwrap_or_default().into_iter().map(short).collect();
        match names.as_slice() {
            [.., last] if names.len() > 3 => format!("{} … {last}", names[0]),
            _ => names.join(", "),
        }
    }

    /// The node that stands for the piece on each side.
    fn first_nodes(&self, piece: &Piece) -> (Option<u32>, Option<u32>) {
        match piece.pairs.first() {
            Some(&(x, y)) => (Some(x), Some(y)),
            None => (piece.removed.first().copied(), piece.added.first().copied()),
        }
    }

    fn home(&self, piece: &Piece) -> Option<Home> {
        let (x, y) = self.first_nodes(piece);
        let own = (x.and_then(|x| self.homes.left(x)), y.and_then(|y| self.homes.right(y)));
        let near = || (x.and_then(|x| self.home_left(x)), y.and_then(|y| self.home_right(y)));
        let choose = |(x, y): (Option<Home>, Option<Home>)| if self.flipped { y.or(x) } else { x.or(y) };
        choose(own).or_else(|| choose(near()))
    }

    /// The layer of a node; where its own graph does not tell, that of what it reads in the other graph. One that reads
    /// weights of no layer is in none.
    fn home_left(&self, x: u32) -> Option<Home> {
        let operands = self.left.operands(x).iter().filter(|_| !reads_weights(self.left, x));
        let above = operands.filter_map(|o| known(self.matching.to_right[o.node as usize]));
        self.homes.left(x).or_else(|| above.filter_map(|y| self.homes.right(y)).max())
    }

    fn home_right(&self, y: u32) -> Option<Home> {
        let operands = self.right.operands(y).iter().filter(|_| !reads_weights(self.right, y));
        let above = operands.filter_map(|o| known(self.matching.to_left[o.node as usize]));
        self.homes.right(y).or_else(|| above.filter_map(|x| self.homes.left(x)).max())
    }

    fn layers(&self, pieces: &[&Piece]) -> Option<Layers> {
        let homes: Vec<Home> = pieces.iter().filter_map(|piece| self.home(piece)).collect();
        let first = *homes.first()?;
        let mut numbers: Vec<i64> = homes.iter().map(|home| home.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Some(Layers {
            prefix: self.homes.prefix(first).to_owned(),
            numbers,
            of: self.homes.sizes[first.prefix as usize],
        })
    }

    /// The words with `*` for numbers in names that differ from place to place.
    fn starred(&self, pieces: &[&Piece], text: String) -> String {
        let all = |piece: &&Piece| self.words(piece, false).text;
        let [first, .., last] = pieces else { return text };
        let (a, b) = (all(first), all(last));
        if a == b {
            return text;
        }
        star(&a, &b)
    }

    fn spot(&self, piece: &Piece) -> Spot {
        let (left, right) = self.nodes(piece);
        let ids = |side: &Side<'_>, nodes: &[u32]| -> Vec<NodeId> {
            let mut ids: Vec<NodeId> = nodes.iter().map(|&n| side.ids[n as usize]).collect();
            ids.dedup();
            ids
        };
        Spot { left: ids(self.left, &left), right: ids(self.right, &right) }
    }

    /// The nodes of a piece on each side, in order, and the weights that only they read.
    fn nodes(&self, piece: &Piece) -> (Vec<u32>, Vec<u32>) {
        let mut left: Vec<u32> = piece.pairs.iter().map(|p| p.0).chain(piece.removed.iter().copied()).collect();
        let mut right: Vec<u32> = piece.pairs.iter().map(|p| p.1).chain(piece.added.iter().copied()).collect();
        let lone = |side: &Side<'_>, partners: &[u32], nodes: &mut Vec<u32>| {
            let sources: Vec<u32> = nodes
                .iter()
                .flat_map(|&n| side.operands(n))
                .map(|o| o.node)
                .filter(|&n| !side.item(n).is_op() && known(partners[n as usize]).is_none())
                .collect();
            nodes.extend(sources);
            nodes.sort_unstable();
            nodes.dedup();
        };
        lone(self.left, &self.matching.to_right, &mut left);
        lone(self.right, &self.matching.to_left, &mut right);
        (left, right)
    }

    fn statements(&self, piece: &Piece, labels: &(Labels, Labels)) -> (Vec<Place>, Vec<Place>) {
        let (left, right) = self.nodes(piece);
        let changes = |x: u32| self.changes[x as usize].iter().filter(|c| !c.follows());
        let pair = match (piece.pairs.as_slice(), piece.removed.is_empty() && piece.added.is_empty()) {
            (&[(x, y)], true) => Some((x, y)),
            _ => None,
        };
        let place = |side: &Side<'_>, labels: &Labels, node: u32, own: Option<u32>| {
            let id = side.ids[node as usize];
            if let Item::Output(name) = side.item(node) {
                let mut text = String::new();
                for o in side.operands(node) {
                    labels.output(name, side.value(o), &mut text);
                }
                return Place { node: id, text: text.trim_start().to_owned(), marks: Vec::new() };
            }
            let line = labels.line(side.graph, id);
            let marks = match (pair, own == Some(node)) {
                (Some((x, _)), true) => changes(x).filter_map(|change| mark(&line, change)).collect(),
                _ => Vec::new(),
            };
            Place { node: id, text: line.text, marks }
        };
        (
            left.iter().take(MOST_SHOWN).map(|&n| place(self.left, &labels.0, n, pair.map(|p| p.0))).collect(),
            right.iter().take(MOST_SHOWN).map(|&n| place(self.right, &labels.1, n, pair.map(|p| p.1))).collect(),
        )
    }
}

fn reads_weights(side: &Side<'_>, node: u32) -> bool {
    side.operands(node).iter().any(|o| matches!(side.item(o.node), Item::Weight(_)))
}

/// The part of a statement that a change is about.
fn mark(line: &Line, change: &Change) -> Option<Range<usize>> {
    match change {
        Change::Operation { .. } => Some(line.op.clone()),
        Change::Attribute { field, .. } => {
            line.attributes.iter().find(|(name, _)| name == field).map(|(_, r)| r.clone())
        }
        Change::Operand { number, .. } => line.operands.get(*number as usize).cloned(),
        Change::Type { port, .. } => line.types.get(*port as usize).cloned(),
        Change::Name { .. } => line.results.first().map(|r| r.start..line.types.first().map_or(r.end, |t| t.start - 2)),
    }
}

/// `layers 0-27`, `layers 3, 7 of 28`, `h.0-11 (24 places)`.
fn layer_words(layers: &Layers, places: usize) -> String {
    let many = layers.numbers.len() > 1;
    let numbers = ranges(&layers.numbers);
    let mut out = match noun(&layers.prefix) {
        Some(noun) if many => format!("{noun}s {numbers}"),
        Some(noun) => format!("{noun} {numbers}"),
        None => format!("{}{numbers}", layers.prefix),
    };
    if many && layers.numbers.len() < layers.of {
        out.push_str(&format!(" of {}", layers.of));
    }
    if places > layers.numbers.len() {
        out.push_str(&format!(" ({places} places)"));
    }
    out
}

/// `a` with `*` for each number that differs in `b`; the two are equal otherwise.
fn star(a: &str, b: &str) -> String {
    use crate::dump::names::{Piece, pieces};
    let mut out = String::new();
    for (x, y) in pieces(a).zip(pieces(b)) {
        match (x, y) {
            (Piece::Text(text), _) => out.push_str(text),
            (Piece::Number(n), Piece::Number(m)) if n.value == m.value => out.push_str(&a[n.at..n.at + n.digits]),
            (Piece::Number(_), _) => out.push('*'),
        }
    }
    out
}
