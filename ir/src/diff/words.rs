//! A place that differs, in words.

use super::homes::inner;
use super::pieces::{Piece, View};
use super::side::{Item, Link, NONE, Side};
use super::types::{Change, Kind};
use crate::text::Labels;
use crate::{TensorType, Value};
use indexmap::IndexMap;

/// How many kinds of operations of a place are told.
const MOST_TOLD: usize = 8;
/// How many weights are.
const MOST_WEIGHTS: usize = 4;
/// How many operands and attributes are.
const MOST_PARTS: usize = 6;
/// The longest text of one attribute.
const LONG: usize = 60;

/// What is said of values.
#[derive(Clone, Copy)]
pub(super) enum Telling<'a> {
    /// Nothing that depends on their names.
    Blind,
    /// Their names; and what they are where statements call two of them the same.
    Full(&'a (Labels, Labels)),
}

/// A piece in words.
#[derive(Default)]
pub(super) struct Words {
    pub kind: Kind,
    pub text: String,
    /// Whether the text names a weight, so that it needs no further place.
    pub placed: bool,
    /// Whether it takes names of values, or what they are, to tell the two sides apart.
    pub unclear: bool,
    /// Operands that statements call the same, and that the text tells apart by what they are.
    pub definitions: Vec<(u32, u32)>,
}

impl View<'_, '_> {
    /// Says what differs.
    pub fn words(&self, piece: &Piece, telling: Telling<'_>) -> Words {
        let replaced = |x: u32| self.changes[x as usize].iter().any(|c| matches!(c, Change::Operation { .. }));
        if let [(x, y)] = piece.pairs[..]
            && piece.removed.is_empty()
            && piece.added.is_empty()
            && !replaced(x)
        {
            return self.pair(x, y, telling);
        }
        let left: Vec<u32> = sorted(piece.pairs.iter().map(|p| p.0).chain(piece.removed.iter().copied()));
        let right: Vec<u32> = sorted(piece.pairs.iter().map(|p| p.1).chain(piece.added.iter().copied()));
        let interface = |item: Item<'_>, text: String| Words {
            kind: if matches!(item, Item::Input(_)) { Kind::Input } else { Kind::Output },
            text,
            placed: true,
            ..Words::default()
        };
        let weights_left = self.lone_sources(self.left, &self.matching.to_right, &left);
        let weights_right = self.lone_sources(self.right, &self.matching.to_left, &right);
        let placed = !weights_left.is_empty() || !weights_right.is_empty();
        match (left.is_empty(), right.is_empty()) {
            (false, true) => match lone(self.left, &left) {
                Some((item, name)) => interface(item, format!("{} {name} is gone", item.word())),
                None => {
                    let text = format!("removed {}", list(self.left, &left, &weights_left));
                    Words { kind: Kind::Removed, text, placed, ..Words::default() }
                }
            },
            (true, _) => match lone(self.right, &right) {
                Some((item, name)) => interface(item, format!("{} {name} is new", item.word())),
                None => {
                    let text = format!("added {}", list(self.right, &right, &weights_right));
                    Words { kind: Kind::Added, text, placed, ..Words::default() }
                }
            },
            (false, false) => {
                let (from, to) = (list(self.left, &left, &weights_left), list(self.right, &right, &weights_right));
                let verb = if left.len() > 1 { "become" } else { "becomes" };
                Words { kind: Kind::Replaced, text: format!("{from} {verb} {to}"), placed, ..Words::default() }
            }
        }
    }

    fn pair(&self, x: u32, y: u32, telling: Telling<'_>) -> Words {
        let changes: Vec<&Change> = self.changes[x as usize].iter().filter(|c| !c.follows()).collect();
        let item = self.left.item(x);
        let name = match item {
            Item::Op(op) => op.name().to_owned(),
            Item::Input(name) | Item::Weight(name) | Item::Output(name) => format!("{} {name}", item.word()),
        };
        let mut parts: Vec<String> = Vec::new();
        let mut kind = match item {
            Item::Input(_) => Kind::Input,
            Item::Weight(_) => Kind::Weight,
            Item::Output(_) => Kind::Output,
            Item::Op(_) => Kind::Operands,
        };
        let (operands, others): (Vec<&Change>, Vec<&Change>) =
            changes.into_iter().partition(|c| matches!(c, Change::Operand { .. }));
        for change in others {
            if item.is_op() {
                kind = Kind::Changed;
            }
            match change {
                Change::Attribute { field, left, right } => {
                    parts.push(format!("{field} {} becomes {}", cut(left), cut(right)));
                }
                Change::Type { port, left, right, .. } => {
                    let (from, to) = types(left.as_ref(), right.as_ref());
                    parts.push(match (item.is_op(), port) {
                        (false, _) => format!("{from} becomes {to}"),
                        (true, 0) => format!("its result is {to} and not {from}"),
                        (true, n) => format!("its result {n} is {to} and not {from}"),
                    });
                }
                Change::Name { right, .. } => parts.push(format!("is now called {right}")),
                Change::Operation { .. } | Change::Operand { .. } => {}
            }
        }
        let mut words = Words { kind, ..Words::default() };
        self.operand_parts((x, y), &operands, telling, &mut parts, &mut words);
        // `weight w is now called v`, `weight w: q8 becomes q4`.
        let colon = if parts.first().is_some_and(|p| p.starts_with("is now")) { "" } else { ":" };
        if parts.len() > MOST_PARTS {
            let more = parts.len() - MOST_PARTS;
            parts.truncate(MOST_PARTS);
            parts.push(format!("and {more} more"));
        }
        words.text = format!("{name}{colon} {}", parts.join(", "));
        words.placed |= !item.is_op();
        words
    }

    /// What other values a pair reads.
    fn operand_parts(
        &self,
        (x, y): (u32, u32),
        changes: &[&Change],
        telling: Telling<'_>,
        parts: &mut Vec<String>,
        words: &mut Words,
    ) {
        let named = matches!(telling, Telling::Full(_));
        let (left, right) = (self.left.operands(x), self.right.operands(y));
        let form = |side: &Side<'_>, node: u32, number: u32| match side.item(node) {
            Item::Op(op) => {
                let names = op.info().form(side.operands(node).len()).unwrap_or("");
                let name = names.split_whitespace().nth(number as usize).filter(|n| !n.ends_with('*'));
                name.map_or_else(|| number.to_string(), |n| n.trim_end_matches('?').to_owned())
            }
            Item::Input(_) | Item::Weight(_) | Item::Output(_) => String::new(),
        };
        let numbers: Vec<u32> = changes
            .iter()
            .filter_map(|c| if let Change::Operand { number, .. } = c { Some(*number) } else { None })
            .collect();
        // The same values in another order?
        let moved = |from: &Link| {
            numbers.iter().any(|&n| {
                right.get(n as usize).is_some_and(|w| w.port == from.port && self.matching.are(from.node, w.node))
            })
        };
        let permuted = numbers.len() > 1 && numbers.iter().all(|&n| left.get(n as usize).is_some_and(moved));
        // What the operand `n` is where statements call it the same on both sides.
        let defined = |n: u32| {
            let Telling::Full(labels) = telling else { return None };
            let (v, w) = left.get(n as usize).zip(right.get(n as usize))?;
            self.same_label(labels, v, w).then(|| self.definitions(v, w)).flatten()
        };
        if permuted && !numbers.iter().all(|&n| defined(n).is_some()) {
            let names: Vec<String> = numbers.iter().map(|&n| form(self.left, x, n)).take(MOST_PARTS).collect();
            let names = match names.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
                _ => names.concat(),
            };
            let how = if numbers.len() == 2 { "are swapped" } else { "are in another order" };
            parts.push(format!("operands {names} {how}"));
            return;
        }
        let is_output = matches!(self.left.item(x), Item::Output(_));
        for &n in &numbers {
            let (v, w) = (left.get(n as usize), right.get(n as usize));
            let weight = |side: &Side<'_>, link: Option<&Link>| {
                link.is_some_and(|l| matches!(side.item(l.node), Item::Weight(_)))
            };
            words.placed |= weight(self.left, v) || weight(self.right, w);
            let mut from = v.map(|v| self.left.described(v, named));
            let mut to = w.map(|w| self.right.described(w, named));
            if let Some(told) = defined(n) {
                (from, to) = (Some(told.left), Some(told.right));
                words.definitions.extend(told.nodes);
                words.unclear = true;
            } else if from == to {
                words.unclear = true;
                if let Some((l, r)) = v.zip(w).filter(|_| named).and_then(|(v, w)| self.whereabouts(v, w)) {
                    (from, to) = (from.map(|t| format!("{t} {l}")), to.map(|t| format!("{t} {r}")));
                }
            }
            let which = match v {
                Some(_) => form(self.left, x, n),
                None => form(self.right, y, n),
            };
            parts.push(match (from, to) {
                (Some(from), Some(to)) if is_output => format!("is {to} and not {from}"),
                (Some(from), Some(to)) if from == to => match to.strip_prefix("the result of ") {
                    Some(op) => format!("operand {which} is the result of another {op}"),
                    None => format!("operand {which} is another {to}"),
                },
                (Some(from), Some(to)) => format!("operand {which} is {to} and not {from}"),
                (Some(from), None) => format!("no operand {which} any more ({from})"),
                (None, Some(to)) => format!("new operand {which} ({to})"),
                (None, None) => continue,
            });
        }
    }

    /// Weights and inputs without a partner that operations read, by name; in order of the operations, each once.
    fn lone_sources(&self, side: &Side<'_>, partners: &[u32], nodes: &[u32]) -> Vec<String> {
        let mut out: Vec<&str> = Vec::new();
        let operands = nodes.iter().flat_map(|&n| side.operands(n)).filter(|o| partners[o.node as usize] == NONE);
        for name in operands.filter_map(|o| side.item(o.node).name()) {
            if out.len() <= MOST_WEIGHTS * 4 && !out.contains(&name) {
                out.push(name);
            }
        }
        out.into_iter().map(|name| inner(name).to_owned()).collect()
    }
}

impl Side<'_> {
    /// A value in words: the name of a weight or an input, the name or the operation of another.
    pub fn described(&self, link: &Link, named: bool) -> String {
        let value: Value = self.value(link);
        match self.item(link.node) {
            Item::Weight(name) | Item::Input(name) => name.to_owned(),
            Item::Op(op) => match self.graph.name_of(value).filter(|_| named) {
                Some(name) => format!("%{name}"),
                None => format!("the result of {}", op.name()),
            },
            Item::Output(name) => name.to_owned(),
        }
    }
}

/// The input or output that nodes are, if they are one.
fn lone<'g>(side: &Side<'g>, nodes: &[u32]) -> Option<(Item<'g>, &'g str)> {
    let &[node] = nodes else { return None };
    let item = side.item(node);
    item.name().map(|name| (item, name))
}

/// Operations in words: `Gelu { approximate = true }`, `Add(…, self_attn.q_proj.bias)`, `Silu, Mul ×2`.
fn list(side: &Side<'_>, nodes: &[u32], weights: &[String]) -> String {
    if let &[node] = nodes
        && let Item::Op(op) = side.item(node)
    {
        let attributes = op.attributes();
        let attributes = if attributes.is_empty() { attributes } else { format!(" {{ {} }}", cut(&attributes)) };
        let reads = if weights.is_empty() { String::new() } else { format!("(…, {})", weights.join(", ")) };
        return format!("{}{reads}{attributes}", op.name());
    }
    let mut counts: IndexMap<String, usize> = IndexMap::new();
    for &node in nodes {
        let word = match side.item(node) {
            Item::Op(op) => op.name().to_owned(),
            item => format!("{} {}", item.word(), item.name().unwrap_or_default()),
        };
        *counts.entry(word).or_default() += 1;
    }
    let counted = |(word, n): (&String, &usize)| if *n > 1 { format!("{word} ×{n}") } else { word.clone() };
    let mut told: Vec<String> = counts.iter().take(MOST_TOLD).map(counted).collect();
    if counts.len() > MOST_TOLD {
        told.push(format!("{} other operations", counts.values().skip(MOST_TOLD).sum::<usize>()));
    }
    let mut out = told.join(", ");
    match weights {
        [] => {}
        [one] => out.push_str(&format!(" with {one}")),
        many if many.len() <= MOST_WEIGHTS => out.push_str(&format!(" with {}", many.join(", "))),
        many => {
            let first = many[..MOST_WEIGHTS - 1].join(", ");
            out.push_str(&format!(" with {first} and more"));
        }
    }
    out
}

/// Two types, without what they share.
fn types(left: Option<&TensorType>, right: Option<&TensorType>) -> (String, String) {
    let (Some(l), Some(r)) = (left, right) else {
        let text = |ty: Option<&TensorType>| ty.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        return (text(left), text(right));
    };
    if l.shape == r.shape {
        return (l.dtype.to_string(), r.dtype.to_string());
    }
    if l.dtype == r.dtype {
        return (l.shape.to_string(), r.shape.to_string());
    }
    (l.to_string(), r.to_string())
}

fn sorted(nodes: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut nodes: Vec<u32> = nodes.collect();
    nodes.sort_unstable();
    nodes
}

/// A text that is not too long.
fn cut(text: &str) -> String {
    match text.chars().count() > LONG {
        true => text.chars().take(LONG - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
