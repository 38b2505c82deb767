//! Places that differ in the same way, folded by layer.

use super::homes::{Home, inner, known, ranges};
use super::pieces::{Piece, View};
use super::side::{Item, Side};
use super::types::{Change, Entry, Kind, Layers, Place, Spot};
use super::vary::{joined, some};
use super::words::{Telling, Words};
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
            let words = self.words(piece, Telling::Blind);
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
        let words = self.told(pieces, labels);
        let layers = self.layers(pieces);
        let text = self.line(pieces, &words, layers.as_ref());
        let (left, right) = self.statements(first, &words.definitions, labels);
        let spots = pieces.iter().map(|piece| self.spot(piece)).collect();
        Some(Entry { kind: words.kind, text, layers, spots, left, right })
    }

    /// `in layers 0-27: Silu becomes Gelu (mlp.act)`.
    fn line(&self, pieces: &[&Piece], words: &Words, layers: Option<&Layers>) -> String {
        let mut text = words.text.clone();
        let whole_names = matches!(words.kind, Kind::Weight | Kind::Input | Kind::Output);
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
        if let (Some(x), Some(y)) = (x, y)
            && let Some(home) = self.agreed(x, y)
        {
            return Some(home);
        }
        let choose = |(x, y): (Option<Home>, Option<Home>)| if self.flipped { y.or(x) } else { x.or(y) };
        choose(own).or_else(|| choose(near()))
    }

    /// The layer of a node; where its own graph does not tell, that of what it reads in the other graph. One that reads
    /// weights of no layer is in none.
    fn home_left(&self, x: u32) -> Option<Home> {
        let operands = self.left.operands(x).iter().filter(|_| !self.left.reads_weights(x));
        let above = operands.filter_map(|o| known(self.matching.to_right[o.node as usize]));
        self.homes.left(x).or_else(|| above.filter_map(|y| self.homes.right(y)).max())
    }

    fn home_right(&self, y: u32) -> Option<Home> {
        let operands = self.right.operands(y).iter().filter(|_| !self.right.reads_weights(y));
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

    /// The words of one entry: those of its first place, with what differs from place to place. Values are called by
    /// their names where there is one place, or where without them the words would say nothing.
    fn told(&self, pieces: &[&Piece], labels: &(Labels, Labels)) -> Words {
        let Some(first) = pieces.first() else { return Words::default() };
        let full = self.words(first, Telling::Full(labels));
        if pieces.len() == 1 {
            return full;
        }
        let all = |telling| {
            let one = |piece: &&Piece| (self.words(piece, telling).text, self.home(piece).map(|home| home.number));
            joined(&pieces.iter().map(one).collect::<Vec<_>>())
        };
        let blind = self.words(first, Telling::Blind);
        if blind.unclear || full.unclear {
            let text = all(Telling::Full(labels)).unwrap_or_else(|| {
                let texts = pieces.iter().map(|piece| self.words(piece, Telling::Full(labels)).text);
                some(texts)
            });
            return Words { text, ..full };
        }
        match all(Telling::Blind) {
            Some(text) => Words { text, ..blind },
            None => blind,
        }
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

    /// The statements of a piece, after those that define operands which are called the same on both sides.
    fn statements(
        &self,
        piece: &Piece,
        definitions: &[(u32, u32)],
        labels: &(Labels, Labels),
    ) -> (Vec<Place>, Vec<Place>) {
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
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for &(v, w) in definitions {
            let (l, r) = (self.left.ids[v as usize], self.right.ids[w as usize]);
            let (l_line, r_line) = (labels.0.line(self.left.graph, l), labels.1.line(self.right.graph, r));
            let marks = differing(&l_line, &r_line);
            before.push(Place { node: l, text: l_line.text, marks: marks.0 });
            after.push(Place { node: r, text: r_line.text, marks: marks.1 });
        }
        let own = |nodes: &[u32], side, labels, of: Option<u32>, out: &mut Vec<Place>| {
            out.extend(nodes.iter().take(MOST_SHOWN).map(|&n| place(side, labels, n, of)));
        };
        own(&left, self.left, &labels.0, pair.map(|p| p.0), &mut before);
        own(&right, self.right, &labels.1, pair.map(|p| p.1), &mut after);
        (before, after)
    }
}

/// The parts of two statements that differ: the operation, its operands, its attributes.
fn differing(left: &Line, right: &Line) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let parts = |line: &Line| -> Vec<Range<usize>> {
        let attributes = line.attributes.iter().map(|(_, range)| range.clone());
        [line.op.clone()].into_iter().chain(line.operands.iter().cloned()).chain(attributes).collect()
    };
    let pairs = parts(left).into_iter().zip(parts(right));
    pairs.filter(|(l, r)| left.text.get(l.clone()) != right.text.get(r.clone())).unzip()
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
