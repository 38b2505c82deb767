//! Which blocks of operations are the same but for a number that counts up.

use super::listing::Listing;
use super::names::{grows, skeleton, strides};
use crate::Value;
use std::collections::HashMap;

/// How many kinds with the same operations are told apart before a block stands for itself.
const MOST_ALIKE: usize = 8;
/// In how many ways one block may read or name something else than its kind does.
const MOST_ODD: usize = 2;
/// In how many ways the blocks of a kind may differ from it, all together.
const MOST_ODD_IN_KIND: usize = 6;

/// Consecutive operations that may be one turn of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub start: usize,
    pub end: usize,
    /// The number of the turn.
    pub number: i64,
}

impl Block {
    pub fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Blocks that are printed as one.
#[derive(Debug)]
pub(super) struct Kind {
    /// The block that is printed: an ordinary one.
    pub model: Block,
    /// Which blocks of the run they are, ascending.
    pub members: Vec<usize>,
    /// What each operation of the block reads, then what it gives; operation by operation.
    pub slots: Vec<Slot>,
    /// Where the slots of each operation begin.
    pub starts: Vec<u32>,
    /// What single blocks do otherwise.
    pub odd: Vec<Odd>,
}

/// An operand or a result.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// In the block that is printed.
    pub value: Value,
    /// For an operand, which result it is: (operation of the block, port).
    pub inside: Option<(u32, u32)>,
    /// For an operand, how it is a result of an earlier block of the run.
    pub back: Option<Back>,
    /// Whether it is the same value in every block.
    pub same: bool,
    /// How the numbers in its name grow from block to block.
    pub growth: Strides,
}

/// A value of an earlier block of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Back {
    /// How many blocks earlier.
    pub turns: u32,
    /// How many operations before the end of that block, 1 for its last.
    pub from_end: u32,
    pub port: u32,
}

/// How the numbers of a name grow with each turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strides {
    /// Only one block has been seen.
    Unknown,
    /// By these.
    Even(Vec<i64>),
    /// The names differ otherwise, or there are none.
    None,
}

/// A block that reads or names something else than its kind does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Odd {
    /// Which block of the run.
    pub member: usize,
    /// The slot, counted from the first of the block.
    pub slot: usize,
    /// The value in that block.
    pub value: Value,
}

/// What a slot stands for, where one meaning is chosen of those that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Meaning {
    Inside(u32, u32),
    Back(Back),
    Value(Value),
}

impl Slot {
    pub fn meaning(&self) -> Meaning {
        match (self.inside, self.back) {
            (Some((op, port)), _) => Meaning::Inside(op, port),
            (None, Some(back)) => Meaning::Back(back),
            (None, None) => Meaning::Value(self.value),
        }
    }
}

/// Sorts consecutive blocks into kinds, in order of their first members. The first block comes last,
/// as it may read something else than the others do.
///
/// Linear in the size of the blocks, by the limits above.
pub(super) fn kinds(listing: &Listing<'_>, blocks: &[Block]) -> Vec<Kind> {
    let mut sorter = Sorter { listing, blocks, kinds: Vec::new(), alike: HashMap::new() };
    let order = (1..blocks.len()).chain((!blocks.is_empty()).then_some(0));
    order.for_each(|member| sorter.sort(member));
    let mut kinds = sorter.kinds;
    for kind in &mut kinds {
        kind.members.sort_unstable();
        kind.odd.sort_by_key(|o| (o.slot, o.member));
    }
    kinds.sort_by_key(|k| k.members[0]);
    kinds
}

struct Sorter<'a, 'g> {
    listing: &'a Listing<'g>,
    blocks: &'a [Block],
    kinds: Vec<Kind>,
    /// The latest kinds by what their operations look like.
    alike: HashMap<&'a [u32], Vec<usize>>,
}

/// Whether a value of one more block is meant by a slot too.
enum Fit {
    No,
    AsIs,
    /// By this slot, which says less.
    As(Slot),
}

impl<'a> Sorter<'a, '_> {
    fn sort(&mut self, member: usize) {
        let block = self.blocks[member];
        let looks: &'a [u32] = &self.listing.looks()[block.start..block.end];
        let near = self.alike.get(looks).map_or(&[][..], Vec::as_slice);
        let fitting = near.iter().rev().find_map(|&kind| Some((kind, self.fits(&self.kinds[kind], member)?)));
        if let Some((kind, odd)) = fitting {
            self.join(kind, member, odd);
            return;
        }
        let latest = self.alike.entry(looks).or_default();
        if latest.len() == MOST_ALIKE {
            latest.remove(0);
        }
        latest.push(self.kinds.len());
        let kind = self.kind(member);
        self.kinds.push(kind);
    }

    fn kind(&self, member: usize) -> Kind {
        let model = self.blocks[member];
        let mut kind = Kind { model, members: vec![member], slots: Vec::new(), starts: Vec::new(), odd: Vec::new() };
        for place in model.start..model.end {
            kind.starts.push(kind.slots.len() as u32);
            for (value, result) in self.values(place) {
                let (inside, back) = if result { (None, None) } else { self.origin(member, value) };
                kind.slots.push(Slot { value, inside, back, same: true, growth: Strides::Unknown });
            }
        }
        kind
    }

    /// Operands, then results of an operation; whether each is a result.
    fn values(&self, place: usize) -> impl Iterator<Item = (Value, bool)> + use<'_> {
        let results = (0..self.listing.results(place)).map(move |port| (self.listing.result(place, port), true));
        self.listing.operands(place).iter().map(|&v| (v, false)).chain(results)
    }

    /// Where in the run an operand of a block comes from: from the block itself, or from an earlier one.
    fn origin(&self, member: usize, value: Value) -> (Option<(u32, u32)>, Option<Back>) {
        let block = self.blocks[member];
        let Some(place) = self.listing.place(value) else { return (None, None) };
        if (block.start..block.end).contains(&place) {
            return (Some(((place - block.start) as u32, value.port)), None);
        }
        if place < self.blocks[0].start || place >= block.start {
            return (None, None);
        }
        let from = self.blocks.partition_point(|b| b.end <= place);
        let from_end = (self.blocks[from].end - place) as u32;
        (None, Some(Back { turns: (member - from) as u32, from_end, port: value.port }))
    }

    /// What is odd about a block if it joins a kind whose operations look the same; `None` where it may not.
    fn fits(&self, kind: &Kind, member: usize) -> Option<Vec<Odd>> {
        let mut odd: Vec<Odd> = Vec::new();
        let mut reads: Vec<(Meaning, Value)> = Vec::new();
        let mut names = 0;
        let fitting = self.walk(kind, member, |slot, had, value, result| {
            if !matches!(self.fit(had, kind, member, value, result), Fit::No) {
                return true;
            }
            if result {
                names += 1;
            } else if !reads.contains(&(had.meaning(), value)) {
                reads.push((had.meaning(), value));
            }
            odd.push(Odd { member, slot, value });
            names <= MOST_ODD && reads.len() <= MOST_ODD
        });
        if !fitting || odd.is_empty() {
            return fitting.then_some(odd);
        }
        // One thing in place of another, and that everywhere in the block.
        let mut twice = matches!(reads[..], [(a, _), (b, _)] if a == b);
        self.walk(kind, member, |_, had, value, result| {
            let meant = reads.iter().find(|(m, _)| !result && *m == had.meaning());
            twice |= meant.is_some_and(|(_, v)| *v != value);
            !twice
        });
        let mut ways: Vec<(Meaning, Value)> =
            kind.odd.iter().chain(&odd).map(|o| (kind.slots[o.slot].meaning(), o.value)).collect();
        ways.sort_unstable();
        ways.dedup();
        (!twice && ways.len() <= MOST_ODD_IN_KIND).then_some(odd)
    }

    /// Calls `f` with each slot of a kind and the value in its place in a block, until it says no.
    fn walk(&self, kind: &Kind, member: usize, mut f: impl FnMut(usize, &Slot, Value, bool) -> bool) -> bool {
        let block = self.blocks[member];
        let values = (block.start..block.end).flat_map(|place| self.values(place));
        kind.slots.iter().zip(values).enumerate().all(|(i, (slot, (value, result)))| f(i, slot, value, result))
    }

    fn join(&mut self, at: usize, member: usize, odd: Vec<Odd>) {
        let mut changed: Vec<(usize, Slot)> = Vec::new();
        let kind = &self.kinds[at];
        self.walk(kind, member, |i, had, value, result| {
            if let Fit::As(slot) = self.fit(had, kind, member, value, result) {
                changed.push((i, slot));
            }
            true
        });
        let kind = &mut self.kinds[at];
        changed.into_iter().for_each(|(i, slot)| kind.slots[i] = slot);
        kind.odd.extend(odd);
        kind.members.push(member);
    }

    fn fit(&self, had: &Slot, kind: &Kind, member: usize, value: Value, result: bool) -> Fit {
        let turns = self.blocks[member].number - kind.model.number;
        if result {
            let growth = self.growth(had, value, turns);
            // Names that do not count up are still alike if only numbers differ.
            let uneven = matches!(growth.as_ref().unwrap_or(&had.growth), Strides::None);
            if uneven && !self.alike_names(had.value, value) {
                return Fit::No;
            }
            return growth.map_or(Fit::AsIs, |growth| Fit::As(Slot { growth, same: false, ..had.clone() }));
        }
        let (inside, back) = self.origin(member, value);
        if had.inside.is_some() || inside.is_some() {
            return if had.inside == inside { Fit::AsIs } else { Fit::No };
        }
        let back = back.filter(|b| had.back == Some(*b));
        let same = had.same && had.value == value;
        let growth = self.growth(had, value, turns);
        // Two values of the run are not the same thing for their names.
        let outside = |v: Value| self.listing.place(v).is_none_or(|p| p < self.blocks[0].start);
        let even = match &growth {
            Some(new) => matches!(new, Strides::Even(_)),
            None => matches!(had.growth, Strides::Even(_)),
        };
        if back.is_none() && !same && !(even && outside(value) && outside(had.value)) {
            return Fit::No;
        }
        if growth.is_none() && back == had.back && same == had.same {
            return Fit::AsIs;
        }
        Fit::As(Slot { value: had.value, inside: None, back, same, growth: growth.unwrap_or(had.growth.clone()) })
    }

    /// How the name of a slot grows, with one more block seen; `None` where that changes nothing.
    fn growth(&self, had: &Slot, value: Value, turns: i64) -> Option<Strides> {
        if had.growth == Strides::None {
            return None;
        }
        let (Some(base), Some(other)) = (self.listing.name(had.value), self.listing.name(value)) else {
            return Some(Strides::None);
        };
        // A weight and a value of one name are two things.
        if self.listing.weight(had.value).is_some() != self.listing.weight(value).is_some() {
            return Some(Strides::None);
        }
        match &had.growth {
            Strides::Even(known) if grows(base, other, turns, known) => None,
            Strides::Unknown => Some(strides(base, other, turns).map_or(Strides::None, Strides::Even)),
            Strides::Even(_) | Strides::None => Some(Strides::None),
        }
    }

    /// Whether two results have no names, or such as differ in numbers only.
    fn alike_names(&self, a: Value, b: Value) -> bool {
        let graph = self.listing.graph;
        let stem = |v: Value| graph.name_of(v).map(|name| skeleton(without_copy(name)));
        stem(a) == stem(b)
    }
}

/// A name without the `.1`, `.2` … that makes names unique.
fn without_copy(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.strip_suffix('.') {
        Some(stem) if stem.len() + 1 < name.len() => stem,
        Some(_) | None => name,
    }
}
