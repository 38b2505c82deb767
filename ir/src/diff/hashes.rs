//! Hashes of what nodes depend on and of what depends on them.

use super::matching::Matching;
use super::side::{Item, Link, NONE, Side, hash_of, mix};

/// How many steps up a near hash sees.
const NEAR: usize = 3;
/// How many steps up what a hash of readers takes for a node sees.
const OWN: usize = 2;

/// How many readers of a node are looked at.
const MOST_READERS: usize = 8;

/// Hashes of one graph, by node. Both graphs' are alike where the nodes are, whatever inputs, weights and outputs that
/// only one of them has are called.
pub(super) struct Hashes {
    /// Of the node and everything that it depends on.
    pub up: Vec<u64>,
    /// Of the node as far as [`OWN`] steps up, and everything that depends on it.
    pub down: Vec<u64>,
    /// Of the node as far as [`NEAR`] steps up.
    pub near: Vec<u64>,
    /// Of the inputs and weights that both graphs have, among what the node itself reads.
    pub sources: Vec<u64>,
}

impl Hashes {
    /// `partners` are those of inputs, weights and outputs: see [`Matching::anchored`]. Linear.
    pub fn new(side: &Side<'_>, partners: &[u32]) -> Self {
        let n = side.len();
        let seed = |node: u32| -> u64 {
            let label = side.labels[node as usize];
            match side.item(node) {
                Item::Op(_) => label,
                Item::Input(name) | Item::Weight(name) | Item::Output(name) => match partners[node as usize] {
                    NONE => label,
                    _ => mix(label, hash_of(name)),
                },
            }
        };
        let seeds: Vec<u64> = (0..n as u32).map(seed).collect();
        let with_operands = |from: &[u64], node: u32| {
            let operands = side.operands(node).iter();
            operands.fold(seeds[node as usize], |h, o| mix(mix(h, from[o.node as usize]), place(o.number, o.port)))
        };
        let mut up = vec![0; n];
        for node in 0..n as u32 {
            up[node as usize] = with_operands(&up, node);
        }
        let mut near = seeds.clone();
        let mut own = Vec::new();
        for step in 1..=NEAR {
            near = (0..n as u32).map(|node| with_operands(&near, node)).collect();
            if step == OWN {
                own = near.clone();
            }
        }
        let mut down = vec![0; n];
        for node in (0..n as u32).rev() {
            let readers = side.readers(node).iter();
            // A sum, as readers have no order.
            let all =
                readers.fold(0u64, |sum, r| sum.wrapping_add(mix(down[r.node as usize], place(r.number, r.port))));
            down[node as usize] = mix(own[node as usize], all);
        }
        let sources = (0..n as u32).map(|node| {
            let anchored =
                side.operands(node).iter().filter(|o| !side.item(o.node).is_op() && partners[o.node as usize] != NONE);
            anchored.fold(0, |h, o| mix(mix(h, seeds[o.node as usize]), u64::from(o.number)))
        });
        Hashes { sources: sources.collect(), up, down, near }
    }

    /// A hash of the node with all above and below it.
    pub fn whole(&self, node: u32) -> u64 {
        mix(self.up[node as usize], self.down[node as usize])
    }

    /// One number for the graph: equal for graphs that are the same computation.
    pub fn total(&self) -> u64 {
        (0..self.up.len() as u32).fold(0, |sum, node| sum.wrapping_add(self.whole(node)))
    }
}

fn place(number: u32, port: u32) -> u64 {
    u64::from(number) << 32 | u64::from(port)
}

impl Matching {
    /// Matches nodes with the same key, if no other node of their graphs that is still unmatched has it.
    pub(super) fn unique(&mut self, left: &[u64], right: &[u64]) {
        for (l, r) in self.only(left, right) {
            self.pair(l, r);
        }
    }

    /// The same, but for nodes with neighbours that are matched to something else, or would be but for their own
    /// neighbours: of what repeats the one graph may have more.
    pub(super) fn unique_fitting(&mut self, a: &Side<'_>, b: &Side<'_>, left: &[u64], right: &[u64]) {
        let mut pairs = self.only(left, right);
        // Operands before their readers.
        pairs.sort_unstable();
        let mut refused = (vec![false; a.len()], vec![false; b.len()]);
        for (l, r) in pairs {
            let operand = |v: u32, w: u32| match (self.to_right[v as usize], self.to_left[w as usize]) {
                (NONE, NONE) => !refused.0[v as usize] && !refused.1[w as usize],
                (partner, _) => partner == w,
            };
            let reader = |link: &Link| match self.to_right[link.node as usize] {
                NONE => true,
                partner => b.operands(partner).get(link.number as usize).is_some_and(|o| o.node == r),
            };
            let fits = a.operands(l).iter().zip(b.operands(r)).all(|(v, w)| operand(v.node, w.node))
                && a.readers(l).iter().take(MOST_READERS).all(reader);
            if fits {
                self.pair(l, r);
            } else {
                refused.0[l as usize] = true;
                refused.1[r as usize] = true;
            }
        }
    }

    fn only(&self, left: &[u64], right: &[u64]) -> Vec<(u32, u32)> {
        let mut at: Vec<(u64, bool, u32)> = Vec::new();
        at.extend(self.unmatched_left().map(|n| (left[n as usize], false, n)));
        at.extend(self.unmatched_right().map(|n| (right[n as usize], true, n)));
        at.sort_unstable();
        let class = |class: &[(u64, bool, u32)]| match *class {
            [(_, false, l), (_, true, r)] => Some((l, r)),
            _ => None,
        };
        at.chunk_by(|x, y| x.0 == y.0).filter_map(class).collect()
    }

    /// Classes of nodes with the same key, where both graphs have as many of them unmatched: nodes of the left and of
    /// the right in their order.
    pub(super) fn classes(&self, left: &[u64], right: &[u64]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let mut at: Vec<(u64, bool, u32)> = Vec::new();
        at.extend(self.unmatched_left().map(|n| (left[n as usize], false, n)));
        at.extend(self.unmatched_right().map(|n| (right[n as usize], true, n)));
        at.sort_unstable();
        let mut classes: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        for class in at.chunk_by(|x, y| x.0 == y.0) {
            let (l, r) = class.split_at(class.partition_point(|x| !x.1));
            if l.len() == r.len() {
                let nodes = |part: &[(u64, bool, u32)]| part.iter().map(|x| x.2).collect();
                classes.push((nodes(l), nodes(r)));
            }
        }
        classes.sort_unstable();
        classes
    }
}
