//! In what matched nodes differ, and what of it follows from changes elsewhere.

use super::matching::Matching;
use super::side::{Item, Link, NONE, Side};
use super::symbols::Symbols;
use super::types::Change;

/// How many nodes without a partner are gone through for what they were made from.
const MOST_PASSED: usize = 64;

/// The changes of every pair, by node of the left graph; of an output only operands and names. Linear.
pub(super) fn changes(left: &Side<'_>, right: &Side<'_>, matching: &Matching) -> Vec<Vec<Change>> {
    let symbols = Symbols::new(left, right, matching);
    let view = View { left, right, matching, symbols };
    (0..left.len() as u32)
        .map(|x| match matching.to_right[x as usize] {
            NONE => Vec::new(),
            y => view.pair(x, y),
        })
        .collect()
}

struct View<'a, 'g> {
    left: &'a Side<'g>,
    right: &'a Side<'g>,
    matching: &'a Matching,
    symbols: Symbols,
}

impl View<'_, '_> {
    fn pair(&self, x: u32, y: u32) -> Vec<Change> {
        let mut out = Vec::new();
        match (self.left.item(x), self.right.item(y)) {
            (Item::Op(p), Item::Op(q)) if p.name() != q.name() => {
                out.push(Change::Operation { left: p.name(), right: q.name() });
            }
            (Item::Op(p), Item::Op(q)) if p != q => {
                let fields = p.fields().into_iter().zip(q.fields()).filter(|(l, r)| l.1 != r.1);
                out.extend(fields.map(|((field, left), (_, right))| Change::Attribute { field, left, right }));
            }
            (Item::Op(_), Item::Op(_)) => {}
            (left, right) => {
                if let (Some(left), Some(right)) = (left.name(), right.name())
                    && left != right
                {
                    out.push(Change::Name { left: left.to_owned(), right: right.to_owned() });
                }
            }
        }
        self.operands(x, y, &mut out);
        self.types(x, y, &mut out);
        out
    }

    fn operands(&self, x: u32, y: u32, out: &mut Vec<Change>) {
        let (left, right) = (self.left.operands(x), self.right.operands(y));
        for at in 0..left.len().max(right.len()) {
            let (v, w) = (left.get(at), right.get(at));
            let same = |(v, w): (&Link, &Link)| v.port == w.port && self.matching.are(v.node, w.node);
            if v.zip(w).is_some_and(same) {
                continue;
            }
            let follows = match (v, w) {
                (Some(v), Some(w)) => self.follows(v, w),
                (v, w) => v.is_some_and(|v| self.gone(v.node)) || w.is_some_and(|w| self.new_there(w.node)),
            };
            out.push(Change::Operand {
                number: at as u32,
                left: v.map(|v| self.left.value(v)),
                right: w.map(|w| self.right.value(w)),
                follows,
            });
        }
    }

    fn gone(&self, x: u32) -> bool {
        self.left.item(x).is_op() && self.matching.to_right[x as usize] == NONE
    }

    fn new_there(&self, y: u32) -> bool {
        self.right.item(y).is_op() && self.matching.to_left[y as usize] == NONE
    }

    /// Whether operands differ only because operations between are gone, new, or others: not where a weight or an input
    /// is read that what is gone never had to do with.
    fn follows(&self, v: &Link, w: &Link) -> bool {
        match (self.gone(v.node), self.new_there(w.node)) {
            (true, true) => true,
            (false, false) => false,
            (true, false) => self.op_or_above(v.node, w.node),
            (false, true) => self.op_or_below(v.node, w.node),
        }
    }

    /// Whether `y` is an operation, or what the gone `x` was made from.
    fn op_or_above(&self, x: u32, y: u32) -> bool {
        let partner = self.matching.to_left[y as usize];
        self.right.item(y).is_op() || reaches(self.left, &self.matching.to_right, x, partner)
    }

    fn op_or_below(&self, x: u32, y: u32) -> bool {
        let partner = self.matching.to_right[x as usize];
        self.left.item(x).is_op() || reaches(self.right, &self.matching.to_left, y, partner)
    }

    fn types(&self, x: u32, y: u32, out: &mut Vec<Change>) {
        let (left, right) = (self.left.types(x), self.right.types(y));
        let alike = left.len() == right.len() && left.iter().zip(right).all(|(l, r)| self.symbols.same(l, r));
        if alike {
            return;
        }
        let follows = !out.iter().all(|c| matches!(c, Change::Name { .. })) || self.operand_types_differ(x, y);
        for at in 0..left.len().max(right.len()) {
            let (l, r) = (left.get(at), right.get(at));
            if !l.zip(r).is_some_and(|(l, r)| self.symbols.same(l, r)) {
                out.push(Change::Type { port: at as u32, left: l.cloned(), right: r.cloned(), follows });
            }
        }
    }

    fn operand_types_differ(&self, x: u32, y: u32) -> bool {
        let operands = self.left.operands(x).iter().zip(self.right.operands(y));
        operands.into_iter().any(|(v, w)| {
            let l = self.left.types(v.node).get(v.port as usize);
            let r = self.right.types(w.node).get(w.port as usize);
            !l.zip(r).is_some_and(|(l, r)| self.symbols.same(l, r))
        })
    }
}

/// Whether a node without a partner depends on `goal` through such nodes alone; also where that takes long to tell.
fn reaches(side: &Side<'_>, partners: &[u32], node: u32, goal: u32) -> bool {
    let mut open = vec![node];
    for _ in 0..MOST_PASSED {
        let Some(node) = open.pop() else { return false };
        for o in side.operands(node) {
            if o.node == goal {
                return true;
            }
            if side.item(o.node).is_op() && partners[o.node as usize] == NONE {
                open.push(o.node);
            }
        }
    }
    !open.is_empty()
}
