//! In what matched nodes differ, and what of it follows from changes elsewhere.

use super::matching::Matching;
use super::side::{Item, Link, NONE, Side};
use super::symbols::Symbols;
use super::types::Change;

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
            let gone =
                v.is_some_and(|v| self.left.item(v.node).is_op() && self.matching.to_right[v.node as usize] == NONE);
            let new =
                w.is_some_and(|w| self.right.item(w.node).is_op() && self.matching.to_left[w.node as usize] == NONE);
            out.push(Change::Operand {
                number: at as u32,
                left: v.map(|v| self.left.value(v)),
                right: w.map(|w| self.right.value(w)),
                follows: gone || new,
            });
        }
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
