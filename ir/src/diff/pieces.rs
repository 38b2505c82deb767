//! What differs, place by place: a changed pair, or neighbouring nodes that are gone, new or other operations.

use super::homes::Homes;
use super::matching::Matching;
use super::side::{Item, NONE, Side};
use super::types::Change;
use std::collections::BTreeMap;

/// The two graphs and how they match.
pub(super) struct View<'a, 'g> {
    pub left: &'a Side<'g>,
    pub right: &'a Side<'g>,
    pub matching: &'a Matching,
    /// By node of the left graph.
    pub changes: &'a [Vec<Change>],
    pub homes: Homes<'g>,
    /// Whether the right graph is the one that names are taken from.
    pub flipped: bool,
}

/// One place that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Pairs that differ by themselves.
    pub pairs: Vec<(u32, u32)>,
    /// Nodes that are gone: operations and outputs, and inputs that nothing read.
    pub removed: Vec<u32>,
    /// Nodes that are new.
    pub added: Vec<u32>,
}

/// Whether the operation of a pair is another.
fn replaced(changes: &[Change]) -> bool {
    changes.iter().any(|c| matches!(c, Change::Operation { .. }))
}

impl View<'_, '_> {
    /// Every place that differs, in order of the left graph as far as that tells.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut groups = Groups::new(self);
        groups.join_neighbours();
        let mut pieces: BTreeMap<u32, Piece> = BTreeMap::new();
        for x in 0..self.left.len() as u32 {
            let y = self.matching.to_right[x as usize];
            let changes = &self.changes[x as usize];
            if y == NONE && groups.counts_left(x) {
                pieces.entry(groups.find(x)).or_default().removed.push(x);
            } else if y != NONE && !changes.iter().all(Change::follows) {
                pieces.entry(groups.find(x)).or_default().pairs.push((x, y));
            }
        }
        for y in self.matching.unmatched_right() {
            if groups.counts_right(y) {
                pieces.entry(groups.find(groups.right(y))).or_default().added.push(y);
            }
        }
        let mut pieces: Vec<(u32, Piece)> = pieces.into_values().map(|p| (self.place(&p), p)).collect();
        pieces.sort_by_key(|(place, p)| {
            (*place, p.pairs.first().copied(), p.removed.first().copied(), p.added.first().copied())
        });
        pieces.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Where a piece stands: its first node of the left graph; where it has none, the first that reads it.
    fn place(&self, piece: &Piece) -> u32 {
        let own = piece.pairs.iter().map(|p| p.0).chain(piece.removed.iter().copied()).min();
        let readers = || piece.added.iter().flat_map(|&y| self.right.readers(y));
        let read = || readers().map(|r| self.matching.to_left[r.node as usize]).filter(|&x| x != NONE).min();
        own.or_else(read).unwrap_or(self.left.len() as u32)
    }
}

/// Sets of nodes of both graphs that belong to one place (union-find).
struct Groups<'a, 'v, 'g> {
    view: &'a View<'v, 'g>,
    parent: Vec<u32>,
}

impl<'a, 'v, 'g> Groups<'a, 'v, 'g> {
    fn new(view: &'a View<'v, 'g>) -> Self {
        Groups { view, parent: (0..(view.left.len() + view.right.len()) as u32).collect() }
    }

    fn right(&self, y: u32) -> u32 {
        self.view.left.len() as u32 + y
    }

    fn find(&mut self, node: u32) -> u32 {
        let mut root = node;
        while self.parent[root as usize] != root {
            root = self.parent[root as usize];
        }
        let mut at = node;
        while at != root {
            at = std::mem::replace(&mut self.parent[at as usize], root);
        }
        root
    }

    /// The smaller number stays, so that the sets do not depend on the order of joining.
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// Whether an unmatched node is a place of its own: weights and inputs go with what reads them.
    fn counts_left(&self, x: u32) -> bool {
        counts(self.view.left, x)
    }

    fn counts_right(&self, y: u32) -> bool {
        counts(self.view.right, y)
    }

    fn gone(&self, x: u32) -> bool {
        self.view.matching.to_right[x as usize] == NONE && self.counts_left(x)
    }

    fn new_there(&self, y: u32) -> bool {
        self.view.matching.to_left[y as usize] == NONE && self.counts_right(y)
    }

    /// Whether a node of the left graph has a partner that is another operation.
    fn taken_over(&self, x: u32) -> bool {
        x != NONE && replaced(&self.view.changes[x as usize])
    }

    fn join_neighbours(&mut self) {
        let view = self.view;
        for x in 0..view.left.len() as u32 {
            let y = view.matching.to_right[x as usize];
            if y != NONE {
                self.pair(x, y);
                continue;
            }
            for o in view.left.operands(x) {
                let apart = matches!((view.homes.left(x), view.homes.left(o.node)), (Some(a), Some(b)) if a != b);
                if self.gone(x) && self.gone(o.node) && !apart {
                    self.join(x, o.node);
                }
            }
        }
        for y in view.matching.unmatched_right() {
            for o in view.right.operands(y) {
                let apart = matches!((view.homes.right(y), view.homes.right(o.node)), (Some(a), Some(b)) if a != b);
                if self.new_there(y) && self.new_there(o.node) && !apart {
                    self.join(self.right(y), self.right(o.node));
                }
            }
        }
    }

    /// What a pair joins: what it read and what it reads instead; and where it is another operation itself, all its
    /// neighbours that are gone or new.
    fn pair(&mut self, x: u32, y: u32) {
        let view = self.view;
        if view.changes[x as usize].is_empty() {
            return;
        }
        let is_replaced = replaced(&view.changes[x as usize]);
        if is_replaced {
            let left = view.left.operands(x).iter().chain(view.left.readers(x)).map(|l| l.node);
            let right = view.right.operands(y).iter().chain(view.right.readers(y)).map(|l| l.node);
            left.filter(|&n| self.gone(n)).collect::<Vec<_>>().into_iter().for_each(|n| self.join(x, n));
            let right: Vec<u32> = right.filter(|&n| self.new_there(n)).collect();
            right.into_iter().for_each(|n| self.join(x, self.right(n)));
        }
        for (v, w) in view.left.operands(x).iter().zip(view.right.operands(y)) {
            if self.gone(v.node) && self.new_there(w.node) {
                self.join(v.node, self.right(w.node));
            }
            // What is gone, and another operation gives its value as well; and the mirror image.
            if self.gone(v.node) && self.taken_over(view.matching.to_left[w.node as usize]) {
                self.join(v.node, view.matching.to_left[w.node as usize]);
            }
            if self.new_there(w.node) && self.taken_over(v.node) {
                self.join(v.node, self.right(w.node));
            }
        }
    }
}

fn counts(side: &Side<'_>, node: u32) -> bool {
    match side.item(node) {
        Item::Op(_) | Item::Output(_) => true,
        Item::Input(_) => side.readers(node).is_empty(),
        Item::Weight(_) => false,
    }
}
