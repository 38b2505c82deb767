//! Matching that spreads from matched nodes to their operands and readers, the likeliest pair first.
//!
//! A pair that nothing speaks against (what both read and what reads both is matched to each other, or looks alike) is
//! taken before any that something does. Only when there are none left, nodes are looked for past what one graph has
//! and the other has not, and pairs are taken in spite of what differs.

use super::hashes::Hashes;
use super::matching::Matching;
use super::side::{Link, NONE, Side};
use super::weigh::{LEVELS, MOST_OPERANDS, MOST_READERS, Weight};
use std::collections::VecDeque;

/// By how many levels a pair comes later that is one of several alike.
const ONE_OF_SEVERAL: usize = 20;
/// How many pairs of readers of one kind are weighed.
const MOST_PAIRS: usize = 16;
/// How many unmatched readers of a node are looked past.
const MOST_AHEAD: usize = 3;
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
    pub a: &'a Side<'g>,
    pub b: &'a Side<'g>,
    pub of_a: &'a Hashes,
    pub of_b: &'a Hashes,
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
                        let free =
                            self.matching.to_right[v as usize] == NONE && self.matching.to_left[w as usize] == NONE;
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
        let pairs: Vec<(u32, u32)> =
            (0u32..).zip(&self.matching.to_right).filter(|(_, y)| **y != NONE).map(|(x, y)| (x, *y)).collect();
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
                self.look_ahead(x, y);
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
            true => weight.operands + weight.alike + weight.readers > 0,
            false if weight.readers > 0 => weight.operands + weight.alike > 0,
            // In the place of the other, though what reads them is another thing as well.
            false => [self.a.operands(x).len(), self.b.operands(y).len()] == [weight.operands as usize; 2],
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

    /// The same for readers of a pair, past a single node.
    fn look_ahead(&mut self, x: u32, y: u32) {
        let (a, b) = (self.a, self.b);
        let (left, right) = (free_readers(a, &self.matching.to_right, x), free_readers(b, &self.matching.to_left, y));
        if left.is_empty() || right.is_empty() {
            return;
        }
        let mut found = Vec::new();
        if let ([v], [w]) = (&left[..], &right[..]) {
            self.doubt(*v, *w, 0);
        }
        for &v in &left {
            let next = free_readers(a, &self.matching.to_right, v).into_iter();
            found.extend(next.flat_map(|n| right.iter().map(move |&w| (n, w))));
        }
        for &w in &right {
            let next = free_readers(b, &self.matching.to_left, w).into_iter();
            found.extend(next.flat_map(|n| left.iter().map(move |&v| (v, n))));
        }
        found.retain(|&(v, w)| a.tags[v as usize] == b.tags[w as usize]);
        found.into_iter().for_each(|(v, w)| self.doubt(v, w, 0));
    }

    fn doubt(&mut self, x: u32, y: u32, less: usize) {
        if let Some(weight) = self.weigh(x, y) {
            self.doubtful.push(weight.level().saturating_sub(less), (x, y));
        }
    }
}

/// The unmatched operations among the first readers of a node.
fn free_readers(side: &Side<'_>, partners: &[u32], node: u32) -> Vec<u32> {
    let free = |r: &&Link| partners[r.node as usize] == NONE && side.item(r.node).is_op();
    side.readers(node).iter().take(MOST_READERS).filter(free).map(|r| r.node).take(MOST_AHEAD).collect()
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
