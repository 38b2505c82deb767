//! What speaks for a pair of nodes.

use super::grow::Grow;
use super::side::{Link, NONE, Side};

/// How many levels of likelihood there are; the likeliest pairs come last.
pub(super) const LEVELS: usize = 64;
/// The level of the number 0.
const ZERO: i32 = 20;
/// How many operands and readers of a node are weighed.
pub(super) const MOST_OPERANDS: usize = 16;
pub(super) const MOST_READERS: usize = 8;

/// What speaks for a pair.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub score: i32,
    /// Something speaks against it.
    pub doubtful: bool,
    /// How many operands agree.
    pub operands: u32,
    /// How many operands look alike.
    pub alike: u32,
    /// How many readers agree.
    pub readers: u32,
}

impl Weight {
    pub fn level(&self) -> usize {
        usize::try_from((self.score + ZERO).clamp(0, LEVELS as i32 - 1)).unwrap_or(0)
    }

    /// An operand is what comes before the other one's.
    fn past(&mut self) {
        self.against(-1);
        self.alike += 1;
    }

    fn against(&mut self, by: i32) {
        self.score -= by;
        self.doubtful = true;
    }
}
impl Grow<'_, '_> {
    /// What speaks for a pair of nodes; `None` where one is matched already.
    pub fn weigh(&self, x: u32, y: u32) -> Option<Weight> {
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
            (true, false) if reads(self.b, w.node, p) => weight.past(),
            (false, true) if reads(self.a, v.node, q) => weight.past(),
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
