//! What a page knows of the difference of two graphs, as JSON beside that of the graphs:
//!
//! ```json
//! {
//!   "partner": [0, 1, null],
//!   "changes": [[2, 3, [{"what": "eps", "left": "1e-6", "right": "1e-5", "follows": false}]]],
//!   "removed": [4], "added": [5],
//!   "entries": [{
//!     "kind": "changed", "text": "…", "count": 28, "spots": [[[2], [3]]],
//!     "left": [{"node": 2, "text": "%y: … = RmsNorm(…)", "marks": [[10, 14]]}], "right": []
//!   }]
//! }
//! ```
//!
//! `partner` gives for each node of the left graph the one of the right graph that takes its place. All nodes
//! are numbered as in their graph. Marks are in characters as JavaScript counts them.

use super::data::Numbers;
use crate::diff::{Change, Diff, Entry, Place, Spot};
use crate::dump::Tree;
use crate::{NodeId, Value as GraphValue};
use serde_json::{Value, json};

/// So many places of an entry are listed; its count tells all.
const MOST_SPOTS: usize = 2_000;

/// The difference of two graphs for a page.
pub(super) fn difference(left: &Tree<'_>, right: &Tree<'_>, diff: &Diff) -> Value {
    let sides = Sides { left, right, numbers: [Numbers::of(left), Numbers::of(right)] };
    let mut partner = vec![None; sides.numbers[0].count()];
    let mut changes = Vec::new();
    for pair in &diff.pairs {
        let (Some(l), Some(r)) = (sides.numbers[0].get(pair.left), sides.numbers[1].get(pair.right)) else { continue };
        if let Some(slot) = partner.get_mut(l as usize) {
            *slot = Some(r);
        }
        if !pair.changes.is_empty() {
            let all: Vec<Value> = pair.changes.iter().map(|c| sides.change(c)).collect();
            changes.push(json!([l, r, all]));
        }
    }
    json!({
        "partner": partner,
        "changes": changes,
        "removed": sides.nodes(0, &diff.removed),
        "added": sides.nodes(1, &diff.added),
        "entries": diff.entries.iter().map(|entry| sides.entry(entry)).collect::<Vec<_>>(),
    })
}

struct Sides<'a, 'g> {
    left: &'a Tree<'g>,
    right: &'a Tree<'g>,
    numbers: [Numbers; 2],
}

impl Sides<'_, '_> {
    fn nodes(&self, side: usize, nodes: &[NodeId]) -> Vec<u32> {
        nodes.iter().filter_map(|&n| self.numbers[side].get(n)).collect()
    }

    fn label(&self, side: usize, value: Option<GraphValue>) -> Option<String> {
        let tree = if side == 0 { self.left } else { self.right };
        value.map(|v| tree.listing.weight(v).map_or_else(|| tree.listing.labels.label(v), str::to_owned))
    }

    fn change(&self, change: &Change) -> Value {
        let (what, left, right) = match change {
            Change::Operation { left, right } => {
                ("operation".to_owned(), Some((*left).to_owned()), Some((*right).to_owned()))
            }
            Change::Attribute { field, left, right } => ((*field).to_owned(), Some(left.clone()), Some(right.clone())),
            Change::Operand { number, left, right, .. } => {
                (format!("operand {number}"), self.label(0, *left), self.label(1, *right))
            }
            Change::Type { port, left, right, .. } => {
                let what = if *port == 0 { "type".to_owned() } else { format!("type of result {port}") };
                (what, left.as_ref().map(ToString::to_string), right.as_ref().map(ToString::to_string))
            }
            Change::Name { left, right } => ("name".to_owned(), Some(left.clone()), Some(right.clone())),
        };
        json!({ "what": what, "left": left, "right": right, "follows": change.follows() })
    }

    fn entry(&self, entry: &Entry) -> Value {
        let spot = |s: &Spot| json!([self.nodes(0, &s.left), self.nodes(1, &s.right)]);
        json!({
            "kind": entry.kind.name(),
            "text": entry.text,
            "count": entry.count(),
            "spots": entry.spots.iter().take(MOST_SPOTS).map(spot).collect::<Vec<_>>(),
            "left": entry.left.iter().map(|p| self.place(0, p)).collect::<Vec<_>>(),
            "right": entry.right.iter().map(|p| self.place(1, p)).collect::<Vec<_>>(),
        })
    }

    fn place(&self, side: usize, place: &Place) -> Value {
        let units = |at: usize| place.text.get(..at).map_or(0, |text| text.encode_utf16().count());
        let marks: Vec<[usize; 2]> = place.marks.iter().map(|m| [units(m.start), units(m.end)]).collect();
        json!({ "node": self.numbers[side].get(place.node), "text": place.text, "marks": marks })
    }
}
