//! Matching that spreads from matched nodes to their operands and readers, the likeliest pair first.
//!
//! A pair that nothing speaks against (what both read and what reads both is matched to each other, or looks alike) is
//! taken before any that something does. Only when there are none left, nodes are looked for past what one graph has
//! and the other has not, and pairs are taken in spite of what differs.

use super::hashes::Hashes;
use super::matching::Matching;
use super::side::{Link, NONE, Side};
use std::collections::VecDeque;

/// The likeliest pairs come last.
const LEVELS: usize = 64;
/// The level of the number 0.
const ZERO: i32 = 20;
/// By how many levels a pair comes later that is one of several alike.
const ONE_OF_SEVERAL: usize = 20;
/// How many operands and readers of a node are weighed.
const MOST_OPERANDS: usize = 16;
const MOST_READERS: usize = 8;
/// How many pairs of readers of one kind are weighed.
const MOST_PAIRS: usize = 16;
/// How many nodes are looked at past what one graph alone has.
const MOST_PASSED: usize = 16;

/// Pairs by how likely they are; of those alike the first come first.
struct Queue {
    levels: Vec<VecDeque<(u32, u32)>>,
    top: usize,
}

impl Queue {
    fn new() -> Self {
        Queue { levels: (0..LEVELS).map(|_| VecDeque::new()).collect(), top: 0 }
    }

    fn push(&mut self, level: usize, pair: (u32, u32)) {
        self.levels[level].push_back(pair);
        self.top = self.top.max(level);
    }

    fn pop(&mut self) -> Option<(usize, (u32, u32))> {
        loop {
            if let Some(pair) = self.levels[self.top].pop_front() {
                return Some((self.top, pair));
            }
            self.top = self.top.checked_sub(1)?;
        }
    }
}

/// What speaks for a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    score: i32,
    /// Something speaks against it.
    doubtful: bool,
    /// How many operands agree.
    operands: u32,
    /// How many operands look alike.
    alike: u32,
    /// How many readers agree.
    readers: u32,
}

impl Weight {
    fn level(&self) -> usize {
        usize::try_from((self.score + ZERO).clamp(0, LEVELS as i32 - 1)).unwrap_or(0)
    }

    fn against(&mut self, by: i32) {
        self.score -= by;
        self.doubtful = true;
    }
}

/// A reader by what it looks like: its kind, what it reads of the node, its anchored operands, and what is near above.
type Reader = (u32, u32, u64, u64, u32);

/// Pairs of readers.
#[derive(Default)]
struct Readers {
    /// Which only each other can be.
    sure: Vec<(u32, u32)>,
    /// Of several that look alike.
    likely: Vec<(u32, u32)>,
}

pub(super) struct Grow<'a, 'g> {
    a: &'a Side<'g>,
    b: &'a Side<'g>,
    of_a: &'a Hashes,
    of_b: &'a Hashes,
    pub matching: Matching,
    sure: Queue,
    doubtful: Queue,
    /// Pairs whose operands are still to be compared for what one graph alone has.
    fresh: Vec<(u32, u32)>,
}

impl<'a, 'g> Grow<'a, 'g> {
    pub fn new(a: &'a Side<'g>, b: &'a Side<'g>, of_a: &'a Hashes, of_b: &'a Hashes, matching: Matching) -> Self {
        Grow { a, b, of_a, of_b, matching, sure: Queue::new(), doubtful: Queue::new(), fresh: Vec::new() }
    }

    /// Pairs nodes with the same key, and with each its neighbours that have the same.
    pub fn exact(&mut self, of_a: &[u64], of_b: &[u64]) {
        for (lefts, rights) in self.matching.classes(of_a, of_b) {
            let mut rest = rights.into_iter();
            for x in lefts {
                if self.matching.to_right[x as usize] != NONE {
                    continue;
                }
                let Some(y) = rest.find(|&y| self.matching.to_left[y as usize] == NONE) else { break };
                self.matching.pair(x, y);
                let mut open = vec![(x, y)];
                while let Some((x, y)) = open.pop() {
                    let operands = self.a.operands(x).iter().zip(self.b.operands(y)).map(|(v, w)| (v.node, w.node));
                    let readers = self.readers(x, y);
                    let next: Vec<(u32, u32)> = operands.chain(readers.sure).chain(readers.likely).collect();
                    for (v, w) in next {
                        let free = self.matching.to_right[v as usize] == NONE && self.matching.to_left[w as usize] == NONE;
                        if free && of_a[v as usize] == of_b[w as usize] {
                            self.matching.pair(v, w);
                            open.push((v, w));
                        }
                    }
                }
            }
        }
    }

    /// Spreads from all that is matched.
    pub fn run(&mut self) {
        let pairs: Vec<(u32, u32)> = (0u32..)
            .zip(&self.matching.to_right)
            .filter(|(_, y)| **y != NONE)
            .map(|(x, y)| (x, *y))
            .collect();
        for &(x, y) in &pairs {
            self.spread(x, y);
        }
        self.fresh = pairs;
        self.drain();
    }

    /// Pairs of classes of nodes that look alike, in their order; after each all that follows from it.
    pub fn seed(&mut self, classes: Vec<(Vec<u32>, Vec<u32>)>) {
        for (lefts, rights) in classes {
            for (x, y) in lefts.into_iter().zip(rights) {
                let free = self.matching.to_right[x as usize] == NONE && self.matching.to_left[y as usize] == NONE;
                if free && self.a.item(x).is_op() && self.a.tags[x as usize] == self.b.tags[y as usize] {
                    self.take(x, y);
                    self.drain();
                }
            }
        }
    }

    fn drain(&mut self) {
        loop {
            while let Some((level, (x, y))) = self.sure.pop() {
                let Some(weight) = self.weigh(x, y) else { continue };
                if weight.doubtful {
                    self.doubtful.push(weight.level(), (x, y));
                } else if weight.level() < level {
                    self.sure.push(weight.level(), (x, y));
                } else {
                    self.take(x, y);
                }
            }
            for (x, y) in std::mem::take(&mut self.fresh) {
                self.look_past(x, y);
            }
            let Some((level, (x, y))) = self.doubtful.pop() else { return };
            let Some(weight) = self.weigh(x, y) else { continue };
            if weight.level() < level {
                self.doubtful.push(weight.level(), (x, y));
            } else if self.acceptable(x, y, weight) {
                self.take(x, y);
            } else if level > 0 {
                // Once more when everything else is done.
                self.doubtful.push(0, (x, y));
            }
        }
    }

    /// Whether a pair is better than none.
    fn acceptable(&self, x: u32, y: u32, weight: Weight) -> bool {
        match self.a.tags[x as usize] == self.b.tags[y as usize] {
            true => weight.operands + weight.readers > 0,
            false => weight.operands + weight.alike > 0 && weight.readers > 0,
        }
    }

    fn take(&mut self, x: u32, y: u32) {
        self.matching.pair(x, y);
        self.fresh.push((x, y));
        self.spread(x, y);
    }

    /// Proposes the neighbours of a pair to each other.
    fn spread(&mut self, x: u32, y: u32) {
        let (a, b) = (self.a, self.b);
        let (left, right) = (a.operands(x), b.operands(y));
        for (v, w) in left.iter().zip(right) {
            self.propose(v.node, w.node);
        }
        let alike = |v: &Link, w: &Link| self.of_a.near[v.node as usize] == self.of_b.near[w.node as usize];
        if left.len().max(right.len()) <= 4 && !left.iter().zip(right).all(|(v, w)| alike(v, w)) {
            let crossed: Vec<(u32, u32)> = left
                .iter()
                .flat_map(|v| right.iter().map(move |w| (v, w)))
                .filter(|(v, w)| v.number != w.number && alike(v, w))
                .map(|(v, w)| (v.node, w.node))
                .collect();
            crossed.into_iter().for_each(|(v, w)| self.propose(v, w));
        }
        let readers = self.readers(x, y);
        readers.sure.into_iter().for_each(|(v, w)| self.propose(v, w));
        readers.likely.into_iter().for_each(|(v, w)| self.doubt(v, w, ONE_OF_SEVERAL));
    }

    /// Pairs of unmatched readers of a pair: those that only each other can be, and those of several of one kind that
    /// look alike, as far as they are few.
    fn readers(&self, x: u32, y: u32) -> Readers {
        let mut out = Readers::default();
        let collect = |side: &Side<'_>, hashes: &Hashes, partners: &[u32], node: u32| -> Vec<Reader> {
            let free = side.readers(node).iter().filter(|r| partners[r.node as usize] == NONE);
            let look = |r: &Link| {
                let n = r.node as usize;
                (side.tags[n], r.port, hashes.sources[n], hashes.near[n], r.node)
            };
            let mut keys: Vec<Reader> = free.map(look).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let left = collect(self.a, self.of_a, &self.matching.to_right, x);
        if left.is_empty() {
            return out;
        }
        let right = collect(self.b, self.of_b, &self.matching.to_left, y);
        let mut groups = joined(&left, &right, |k| (k.0, k.1, 0, 0));
        // Ever finer, until each stands alone.
        for step in 0..3 {
            let mut several = Vec::new();
            for (l, r) in groups {
                match (l, r) {
                    ([l], [r]) => out.sure.push((l.4, r.4)),
                    _ if step == 0 => several.extend(joined(l, r, |k| (k.0, k.1, k.2, 0))),
                    _ if step == 1 => several.extend(joined(l, r, |k| (k.0, k.1, k.2, k.3))),
                    _ if l.len() * r.len() <= MOST_PAIRS => {
                        out.likely.extend(l.iter().flat_map(|v| r.iter().map(move |w| (v.4, w.4))));
                    }
                    _ => {}
                }
            }
            groups = several;
        }
        out
    }

    fn propose(&mut self, x: u32, y: u32) {
        if self.a.tags[x as usize] != self.b.tags[y as usize] {
            return;
        }
        if let Some(weight) = self.weigh(x, y) {
            match weight.doubtful {
                true => self.doubtful.push(weight.level(), (x, y)),
                false => self.sure.push(weight.level(), (x, y)),
            }
        }
    }

    /// Candidates where the operands of a pair do not match: the one operation in place of the other, or either past
    /// what the other graph alone has.
    fn look_past(&mut self, x: u32, y: u32) {
        let (a, b) = (self.a, self.b);
        for (v, w) in a.operands(x).iter().zip(b.operands(y)) {
            let free_v = self.matching.to_right[v.node as usize] == NONE && a.item(v.node).is_op();
            let free_w = self.matching.to_left[w.node as usize] == NONE && b.item(w.node).is_op();
            if free_v && free_w {
                self.doubt(v.node, w.node, 0);
            }
            if free_v {
                let found = passed(b, &self.matching.to_left, w.node, a.tags[v.node as usize]);
                found.into_iter().for_each(|n| self.doubt(v.node, n, 0));
            }
            if free_w {
                let found = passed(a, &self.matching.to_right, v.node, b.tags[w.node as usize]);
                found.into_iter().for_each(|n| self.doubt(n, w.node, 0));
            }
        }
    }

    fn doubt(&mut self, x: u32, y: u32, less: usize) {
        if let Some(weight) = self.weigh(x, y) {
            self.doubtful.push(weight.level().saturating_sub(less), (x, y));
        }
    }

    /// What speaks for a pair of nodes; `None` where one is matched already.
    fn weigh(&self, x: u32, y: u32) -> Option<Weight> {
        let (a, b) = (self.a, self.b);
        let (i, j) = (x as usize, y as usize);
        if self.matching.to_right[i] != NONE || self.matching.to_left[j] != NONE {
            return None;
        }
        let mut weight = Weight::default();
        if a.labels[i] == b.labels[j] {
            weight.score += 2;
        } else if a.tags[i] != b.tags[j] {
            weight.against(3);
            if !a.item(x).is_op() || !b.item(y).is_op() {
                return None;
            }
        } else {
            weight.against(0);
        }
        weight.score += if self.of_a.up[i] == self.of_b.up[j] { 3 } else { 0 };
        weight.score += if self.of_a.down[i] == self.of_b.down[j] { 3 } else { 0 };
        let (left, right) = (a.operands(x), b.operands(y));
        for (v, w) in left.iter().zip(right).take(MOST_OPERANDS) {
            self.weigh_operand(&mut weight, v, w, right);
        }
        if left.len() != right.len() {
            weight.against(2);
        }
        self.weigh_readers(&mut weight, x, y);
        Some(weight)
    }

    fn weigh_operand(&self, weight: &mut Weight, v: &Link, w: &Link, all: &[Link]) {
        let (i, j) = (v.node as usize, w.node as usize);
        let (p, q) = (self.matching.to_right[i], self.matching.to_left[j]);
        match (p != NONE, q != NONE) {
            _ if v.port != w.port => weight.against(3),
            (true, true) if p == w.node => {
                weight.score += 4;
                weight.operands += 1;
            }
            // In another place.
            (true, _) if all.iter().any(|o| o.node == p) => weight.against(1),
            (true, true) => weight.against(4),
            // The one may be what comes before the other, with a node between that is gone or new.
            (true, false) if reads(self.b, w.node, p) => weight.against(-1),
            (false, true) if reads(self.a, v.node, q) => weight.against(-1),
            (true, false) | (false, true) => weight.against(3),
            (false, false) if self.of_a.near[i] == self.of_b.near[j] => {
                weight.score += 3;
                weight.alike += 1;
            }
            (false, false) if self.a.tags[i] != self.b.tags[j] => weight.against(2),
            (false, false) if self.of_a.sources[i] != self.of_b.sources[j] => weight.against(1),
            (false, false) if self.a.labels[i] == self.b.labels[j] => weight.score += 1,
            (false, false) => {}
        }
    }

    fn weigh_readers(&self, weight: &mut Weight, x: u32, y: u32) {
        let (a, b) = (self.a, self.b);
        if a.readers(x).is_empty() && b.readers(y).is_empty() {
            weight.score += 1;
        }
        for r in a.readers(x).iter().take(MOST_READERS) {
            let partner = self.matching.to_right[r.node as usize];
            if partner == NONE {
                continue;
            }
            let there = b.operands(partner);
            match there.get(r.number as usize).is_some_and(|o| o.node == y && o.port == r.port) {
                true => {
                    weight.score += if weight.readers < 2 { 4 } else { 0 };
                    weight.readers += 1;
                }
                false if there.iter().take(MOST_OPERANDS).any(|o| o.node == y) => weight.score += 1,
                false => weight.against(2),
            }
        }
        for r in b.readers(y).iter().take(MOST_READERS) {
            let partner = self.matching.to_left[r.node as usize];
            if partner != NONE && !a.operands(partner).iter().take(MOST_OPERANDS).any(|o| o.node == x) {
                weight.against(2);
            }
        }
    }
}

fn reads(side: &Side<'_>, node: u32, operand: u32) -> bool {
    side.operands(node).iter().take(MOST_OPERANDS).any(|o| o.node == operand)
}

/// Groups of equal keys that both lists have; both are sorted.
fn joined<'k, T, K: Ord>(left: &'k [T], right: &'k [T], key: impl Fn(&T) -> K) -> Vec<(&'k [T], &'k [T])> {
    let mut out = Vec::new();
    let mut rest = right;
    for l in left.chunk_by(|x, y| key(x) == key(y)) {
        let wanted = key(&l[0]);
        rest = &rest[rest.partition_point(|r| key(r) < wanted)..];
        let r = &rest[..rest.partition_point(|r| key(r) <= wanted)];
        if !r.is_empty() {
            out.push((l, r));
        }
    }
    out
}

/// Unmatched nodes of one kind among those that an unmatched node depends on by way of unmatched ones; the nearest
/// first.
fn passed(side: &Side<'_>, partners: &[u32], from: u32, tag: u32) -> Vec<u32> {
    if partners[from as usize] != NONE {
        return Vec::new();
    }
    let mut seen = vec![from];
    let mut at = 0;
    while let Some(&node) = seen.get(at) {
        at += 1;
        for o in side.operands(node).iter().take(MOST_OPERANDS) {
            let known = seen.len() >= MOST_PASSED || partners[o.node as usize] != NONE || seen.contains(&o.node);
            if !known && side.item(o.node).is_op() {
                seen.push(o.node);
            }
        }
    }
    seen.into_iter().skip(1).filter(|&n| side.tags[n as usize] == tag).collect()
}
