//! What one kind of block does otherwise than another, in a line.

use super::kinds::Kind;
use super::listing::Listing;
use super::names::{short, skeleton};
use crate::hint::hint_name;
use crate::{NodeKind, Op};
use indexmap::IndexMap;

/// How many differences are told.
const MOST: usize = 6;
/// How many operations in place of others are told one by one.
const MOST_REPLACED: usize = 4;
/// The longest text of one attribute.
const LONG: usize = 40;

/// How `kind` differs from `had`: `SdpaWindow → Sdpa, Rope base 10000 → 1000000`. Attributes, devices and the
/// shapes of weights are compared operation by operation, unless more than a few are others. Linear.
pub(super) fn differences(listing: &Listing<'_>, had: &Kind, kind: &Kind) -> String {
    let pairs = || (had.model.start..had.model.end).zip(kind.model.start..kind.model.end);
    let name = |place: usize| op(listing, place).map_or("", Op::name);
    let replaced = pairs().filter(|&(a, b)| name(a) != name(b)).count();
    if had.model.len() != kind.model.len() || replaced > MOST_REPLACED {
        return operations(listing, had, kind);
    }
    let mut told = Told::default();
    for (a, b) in pairs() {
        let (Some(x), Some(y)) = (op(listing, a), op(listing, b)) else { continue };
        if x.name() != y.name() {
            told.add(format!("{} → {}", x.name(), y.name()));
            continue;
        }
        if x != y {
            for ((field, x), (_, y)) in x.fields().into_iter().zip(y.fields()).filter(|(x, y)| x != y) {
                told.add(format!("{} {field} {} → {}", name(a), cut(&x), cut(&y)));
            }
        }
        let hint = |place: usize| {
            let hint = listing.graph.hint(listing.node(place))?;
            Some(hint_name(hint).map_or_else(|| hint.to_string(), str::to_owned))
        };
        let hints = (hint(a), hint(b));
        if hints.0 != hints.1 {
            let [x, y] = [hints.0, hints.1].map(|hint| hint.map_or_else(|| "none".into(), |name| format!("@{name}")));
            told.add(format!("device of {} {x} → {y}", name(a)));
        }
        weights(listing, a, b, &mut told);
    }
    if told.list.is_empty() {
        // Results follow from all that, but for types that differ by what comes from outside.
        for (a, b) in pairs() {
            let types = |place: usize| listing.graph.node(listing.node(place)).results.iter();
            for (x, y) in types(a).zip(types(b)).filter(|(x, y)| x != y) {
                told.add(format!("{} gives {x} → {y}", name(a)));
            }
        }
    }
    if told.list.is_empty() { "what is read, or how it is called".into() } else { told.line() }
}

/// Differences, each once.
#[derive(Default)]
struct Told {
    list: Vec<String>,
    more: bool,
}

impl Told {
    fn add(&mut self, text: String) {
        if self.list.contains(&text) {
            return;
        }
        match self.list.len() < MOST {
            true => self.list.push(text),
            false => self.more = true,
        }
    }

    fn line(&self) -> String {
        format!("{}{}", self.list.join(", "), if self.more { ", …" } else { "" })
    }
}

fn op<'g>(listing: &Listing<'g>, place: usize) -> Option<&'g Op> {
    match &listing.graph.node(listing.node(place)).kind {
        NodeKind::Op(op) => Some(op),
        NodeKind::Input(_) | NodeKind::Weight(_) => None,
    }
}

/// Operands of two operations, so far as they are weights of other names or shapes.
fn weights(listing: &Listing<'_>, a: usize, b: usize, told: &mut Told) {
    let (had, reads) = (listing.operands(a), listing.operands(b));
    if had.len() != reads.len() {
        let name = op(listing, a).map_or("", Op::name);
        told.add(format!("{name} reads {} → {} values", had.len(), reads.len()));
        return;
    }
    for (&x, &y) in had.iter().zip(reads) {
        let (Some(from), Some(to)) = (listing.weight(x), listing.weight(y)) else { continue };
        if skeleton(from) != skeleton(to) {
            told.add(format!("{} → {}", short(from), short(to)));
        }
        if let (Ok(x), Ok(y)) = (listing.graph.try_ty(x), listing.graph.try_ty(y))
            && x.shape != y.shape
        {
            told.add(format!("{} {} → {}", short(to), x.shape, y.shape));
        }
    }
}

/// Which operations there are more of, and which less.
fn operations(listing: &Listing<'_>, had: &Kind, kind: &Kind) -> String {
    let mut counts: IndexMap<&str, i64> = IndexMap::new();
    for (sign, block) in [(-1, &had.model), (1, &kind.model)] {
        for place in block.start..block.end {
            *counts.entry(op(listing, place).map_or("", Op::name)).or_default() += sign;
        }
    }
    let told = |more: bool| {
        let list = counts.iter().filter(|(_, n)| **n != 0 && (**n > 0) == more);
        list.map(|(name, n)| format!("{} {name}", n.abs())).collect::<Vec<_>>()
    };
    let (more, less) = (told(true), told(false));
    match more.len() + less.len() {
        0 => "the order of operations".into(),
        1..=MOST => {
            let parts = [(more, "more"), (less, "less")].into_iter().filter(|(list, _)| !list.is_empty());
            let parts: Vec<String> = parts.map(|(list, word)| format!("{} {word}", list.join(", "))).collect();
            format!("operations ({})", parts.join("; "))
        }
        _ => "operations".into(),
    }
}

/// A text that is not too long.
fn cut(text: &str) -> String {
    match text.chars().count() > LONG {
        true => text.chars().take(LONG - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
