//! Operands that are called the same in both graphs and are not the same: what they are instead.

use super::pieces::View;
use super::side::{Item, Link, Side};
use crate::Op;
use crate::text::Labels;

/// How many operands of a definition are compared.
const MOST_COMPARED: usize = 16;
/// How many steps up definitions are followed.
const MOST_STEPS: usize = 8;

/// What two values are that are called the same.
pub(super) struct Definitions {
    /// That of the left graph in words.
    pub left: String,
    /// That of the right graph.
    pub right: String,
    /// The nodes that say so in both graphs, the farthest first.
    pub nodes: Vec<(u32, u32)>,
}

enum Parting {
    /// In words.
    Here(String, String),
    /// Operands that differ.
    Above(Link, Link),
}

impl View<'_, '_> {
    /// Whether statements call two values the same.
    pub fn same_label(&self, labels: &(Labels, Labels), v: &Link, w: &Link) -> bool {
        labels.0.label(self.left.value(v)) == labels.1.label(self.right.value(w))
    }

    /// In what two values differ by what they are made of: the nearest operation, attribute or operand that is another
    /// on the way up.
    pub fn definitions(&self, v: &Link, w: &Link) -> Option<Definitions> {
        let (mut v, mut w) = (*v, *w);
        let mut nodes = Vec::new();
        for step in 0..MOST_STEPS {
            let (Item::Op(p), Item::Op(q)) = (self.left.item(v.node), self.right.item(w.node)) else { return None };
            nodes.push((v.node, w.node));
            let (l, r, told) = match self.parting((p, v), (q, w))? {
                Parting::Here(from, to) => (v, w, Some((from, to))),
                Parting::Above(l, r) => {
                    let (from, to) = (self.left.described(&l, true), self.right.described(&r, true));
                    let told =
                        (from != to).then(|| (format!("{} of {from}", p.name()), format!("{} of {to}", q.name())));
                    (l, r, told)
                }
            };
            if let Some((from, to)) = told {
                let way = if step > 0 { "made from " } else { "" };
                nodes.reverse();
                return Some(Definitions { left: format!("{way}{from}"), right: format!("{way}{to}"), nodes });
            }
            (v, w) = (l, r);
        }
        None
    }

    /// What two values differ in by themselves, else the first operands that differ.
    fn parting(&self, (p, v): (&Op, Link), (q, w): (&Op, Link)) -> Option<Parting> {
        if p.name() != q.name() {
            return Some(Parting::Here(p.name().to_owned(), q.name().to_owned()));
        }
        if v.port != w.port {
            let result = |op: &Op, port| format!("result {port} of {}", op.name());
            return Some(Parting::Here(result(p, v.port), result(q, w.port)));
        }
        if p != q {
            let whole = |op: &Op| format!("{} {{ {} }}", op.name(), op.attributes());
            return Some(Parting::Here(whole(p), whole(q)));
        }
        let operands = self.left.operands(v.node).iter().zip(self.right.operands(w.node)).take(MOST_COMPARED);
        let mut other = operands.filter(|(l, r)| l.port != r.port || !self.matching.are(l.node, r.node));
        other.next().map(|(l, r)| Parting::Above(*l, *r))
    }

    /// Where two values of the same operation are: in which layer, else near which weights.
    pub fn whereabouts(&self, v: &Link, w: &Link) -> Option<(String, String)> {
        let homes = (self.homes.left(v.node), self.homes.right(w.node));
        if let (Some(l), Some(r)) = homes
            && l != r
        {
            let told = |home| format!("in {}{}", self.homes.prefix(home), home.number);
            return Some((told(l), told(r)));
        }
        let near = |side: &Side<'_>, is_left: bool, node: u32| self.homes.near(side, is_left, node).join(", ");
        let (l, r) = (near(self.left, true, v.node), near(self.right, false, w.node));
        (l != r && !l.is_empty() && !r.is_empty()).then(|| (format!("near {l}"), format!("near {r}")))
    }
}
