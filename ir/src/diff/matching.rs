//! Which node of one graph is which of the other.

use super::grow::Grow;
use super::hashes::Hashes;
use super::side::{Item, NONE, Side, mix};
use super::slide::slide;
use std::collections::HashMap;

/// Partners of nodes, both ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    /// The partner of each node of the left graph, or [`NONE`].
    pub to_right: Vec<u32>,
    /// That of each of the right.
    pub to_left: Vec<u32>,
}

impl Matching {
    /// Nothing but inputs, weights and outputs, by name.
    pub fn anchored(left: &Side<'_>, right: &Side<'_>) -> Self {
        let mut matching = Matching { to_right: vec![NONE; left.len()], to_left: vec![NONE; right.len()] };
        let mut named: HashMap<(&str, &str), u32> = HashMap::new();
        let named_items =
            |side: &Side<'_>| -> Vec<u32> { (0..side.len() as u32).filter(|&n| !side.item(n).is_op()).collect() };
        for node in named_items(right) {
            if let Some(key) = key(right.item(node)) {
                named.insert(key, node);
            }
        }
        for node in named_items(left) {
            if let Some(&other) = key(left.item(node)).and_then(|key| named.get(&key)) {
                matching.pair(node, other);
            }
        }
        matching
    }

    /// Matches two nodes; nothing where one of them is matched already.
    pub fn pair(&mut self, left: u32, right: u32) {
        if self.to_right[left as usize] == NONE && self.to_left[right as usize] == NONE {
            self.to_right[left as usize] = right;
            self.to_left[right as usize] = left;
        }
    }

    /// Whether two nodes are partners.
    pub fn are(&self, left: u32, right: u32) -> bool {
        self.to_right[left as usize] == right
    }

    pub fn unmatched_left(&self) -> impl Iterator<Item = u32> + '_ {
        unmatched(&self.to_right)
    }

    pub fn unmatched_right(&self) -> impl Iterator<Item = u32> + '_ {
        unmatched(&self.to_left)
    }

    /// The same, seen from the other side.
    pub fn flipped(self) -> Self {
        Matching { to_right: self.to_left, to_left: self.to_right }
    }
}

fn unmatched(partners: &[u32]) -> impl Iterator<Item = u32> + '_ {
    (0u32..).zip(partners).filter(|(_, p)| **p == NONE).map(|(n, _)| n)
}

fn key<'g>(item: Item<'g>) -> Option<(&'static str, &'g str)> {
    match item {
        Item::Input(name) | Item::Weight(name) | Item::Output(name) => Some((item.word(), name)),
        Item::Op(_) => None,
    }
}

/// Matches the nodes of two graphs. The second result says whether the right graph took the part of the first: which
/// one does is settled by the graphs, not by their order, so that the other order gives the mirror image.
pub(super) fn matched(left: &Side<'_>, right: &Side<'_>) -> (Matching, bool) {
    let anchors = Matching::anchored(left, right);
    let (lefts, rights) = (Hashes::new(left, &anchors.to_right), Hashes::new(right, &anchors.to_left));
    let rank = |side: &Side<'_>, hashes: &Hashes| (side.len(), hashes.total());
    match rank(left, &lefts) <= rank(right, &rights) {
        true => (spread(left, right, &lefts, &rights, anchors), false),
        false => (spread(right, left, &rights, &lefts, anchors.flipped()).flipped(), true),
    }
}

/// How often twins are told apart by their neighbours.
const REFINED: usize = 4;

/// Hashes of nodes with those of their neighbours.
fn refined(side: &Side<'_>, of: &[u64]) -> Vec<u64> {
    let linked = |node: u32| {
        let operands = side.operands(node).iter().fold(of[node as usize], |h, o| mix(h, of[o.node as usize]));
        let readers = side.readers(node).iter().map(|r| mix(of[r.node as usize], u64::from(r.number)));
        mix(operands, readers.fold(0, u64::wrapping_add))
    };
    (0..side.len() as u32).map(linked).collect()
}

fn spread(a: &Side<'_>, b: &Side<'_>, of_a: &Hashes, of_b: &Hashes, mut matching: Matching) -> Matching {
    let whole =
        |side: &Side<'_>, hashes: &Hashes| -> Vec<u64> { (0..side.len() as u32).map(|n| hashes.whole(n)).collect() };
    let (whole_a, whole_b) = (whole(a, of_a), whole(b, of_b));
    matching.unique(&whole_a, &whole_b);
    matching.unique(&of_a.up, &of_b.up);
    matching.unique_fitting(a, b, &of_a.down, &of_b.down);
    let mut grow = Grow::new(a, b, of_a, of_b, matching);
    let twins = grow.matching.classes(&whole_a, &whole_b);
    if !twins.is_empty() {
        // Twins in all that is above and below them, told apart by their neighbours as far as that goes; of those that
        // are left any will do, and its neighbours go with it.
        let (mut fine_a, mut fine_b) = (whole_a, whole_b);
        for _ in 0..REFINED {
            (fine_a, fine_b) = (refined(a, &fine_a), refined(b, &fine_b));
            grow.matching.unique(&fine_a, &fine_b);
        }
        grow.exact(&fine_a, &fine_b);
    }
    grow.run();
    // What is left: nodes that look alike, in their order, as long as that leads on.
    let alike = grow.matching.classes(&of_a.near, &of_b.near);
    grow.seed(alike);
    let mut matching = grow.matching;
    slide(a, b, &mut matching);
    let mut mirrored = matching.flipped();
    slide(b, a, &mut mirrored);
    mirrored.flipped()
}
