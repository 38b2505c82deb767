//! In which layer a changed pair is that its two graphs place differently.

use super::homes::Home;
use super::pieces::View;
use super::side::NONE;

/// How many steps away neighbours are asked.
const STEPS: usize = 8;
/// How many neighbours each way are asked in one step.
const MOST_ASKED: usize = 16;

impl View<'_, '_> {
    /// The layer of a pair. Where the graphs place it in two, because it reads something of another layer in one of
    /// them, that of the two that the nearest neighbours are in which both graphs agree on; `None` where they do not
    /// tell, or where it is in none.
    pub fn agreed(&self, x: u32, y: u32) -> Option<Home> {
        let (own, other) = (self.homes.left(x), self.homes.right(y));
        let (Some(own), Some(other)) = (own, other) else { return None };
        if own == other {
            return Some(own);
        }
        if let Some(home) = self.borrowed(x, y, (own, other)) {
            return Some(home);
        }
        let (mut above, mut below) = (vec![(x, y)], vec![(x, y)]);
        for _ in 0..STEPS {
            above = self.above(&above);
            below = self.below(&below);
            let mut votes = (0, 0);
            for &(v, w) in above.iter().chain(&below) {
                let Some(home) = self.homes.left(v).filter(|home| self.homes.right(w) == Some(*home)) else { continue };
                // A node that reads weights of the layer is surely in it; others get theirs from what they depend on.
                let weight = if self.left.reads_weights(v) { 2 } else { 1 };
                votes.0 += if home == own { weight } else { 0 };
                votes.1 += if home == other { weight } else { 0 };
            }
            if votes.0 != votes.1 {
                return Some(if votes.0 > votes.1 { own } else { other });
            }
        }
        None
    }

    /// What a pair reads in one graph alone is borrowed from where it is, if something there reads it in both graphs:
    /// then the layer is that of the other graph.
    fn borrowed(&self, x: u32, y: u32, (own, other): (Home, Home)) -> Option<Home> {
        let mut votes = (false, false);
        for (v, w) in self.left.operands(x).iter().zip(self.right.operands(y)).take(MOST_ASKED) {
            if !self.matching.are(v.node, w.node) {
                votes.1 |= self.kept(v.node, self.matching.to_right[v.node as usize]);
                votes.0 |= self.kept(self.matching.to_left[w.node as usize], w.node);
            }
        }
        match votes {
            (true, false) => Some(own),
            (false, true) => Some(other),
            _ => None,
        }
    }

    /// Whether both nodes of a pair have a reader that is the same in both graphs.
    fn kept(&self, x: u32, y: u32) -> bool {
        x != NONE && y != NONE && !self.below(&[(x, y)]).is_empty()
    }

    /// What both nodes of pairs read at the same place.
    fn above(&self, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let operands = |&(x, y): &(u32, u32)| self.left.operands(x).iter().zip(self.right.operands(y));
        let both = pairs.iter().flat_map(operands).map(|(v, w)| (v.node, w.node));
        let mut out: Vec<_> = both.filter(|&(v, w)| self.matching.are(v, w)).take(MOST_ASKED).collect();
        out.dedup();
        out
    }

    /// What reads both nodes of pairs; of many readers the first of the graph that the names are taken from, so that
    /// the mirror image asks the same.
    fn below(&self, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let (a, b, to_b) = match self.flipped {
            false => (self.left, self.right, &self.matching.to_right),
            true => (self.right, self.left, &self.matching.to_left),
        };
        let turned = |(x, y): (u32, u32)| if self.flipped { (y, x) } else { (x, y) };
        let readers = pairs.iter().map(|&pair| turned(pair)).flat_map(|(x, y)| {
            let of_a = a.readers(x).iter().take(MOST_ASKED).map(|r| (r.node, to_b[r.node as usize]));
            let reads =
                move |&(_, q): &(u32, u32)| q != NONE && b.operands(q).iter().take(MOST_ASKED).any(|o| o.node == y);
            of_a.filter(reads)
        });
        let mut out: Vec<_> = readers.take(MOST_ASKED).map(turned).collect();
        out.dedup();
        out
    }
}
