//! A difference as text and as JSON.

use super::types::{Diff, Entry, Place, Spot};
use crate::text::Labels;
use crate::{Graph, NodeId, Value as GraphValue};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;

/// The version of the JSON form.
const VERSION: u32 = 1;
/// How many statements of one entry are written on each side.
const MOST_LINES: usize = 8;

impl Diff {
    /// The difference for people: a line with counts, then each entry with the statements of its first place, `-` before
    /// those of the left graph and `+` before those of the right, and carets below what differs in them.
    ///
    /// ```text
    /// 1 difference in 28 places (replaced); 415 nodes match
    ///
    /// in layers 0-27: Silu becomes Gelu { approximate = true } (mlp.act)
    ///   - %layer0.mlp.act: f32[S, 64] = Silu(%layer0.gate)
    ///   + %layer0.mlp.act: f32[S, 64] = Gelu(%layer0.gate) { approximate = true }
    /// ```
    pub fn text(&self) -> String {
        let mut out = self.head();
        for entry in &self.entries {
            out.push('\n');
            entry.write(&mut out);
        }
        out
    }

    /// The line with counts.
    pub fn head(&self) -> String {
        let nodes = |n: usize| if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") };
        if self.is_equal() {
            return format!("the graphs are equal: {}\n", nodes(self.pairs.len()));
        }
        let places: usize = self.entries.iter().map(Entry::count).sum();
        let mut out = match self.entries.len() {
            1 => "1 difference".to_owned(),
            n => format!("{n} differences"),
        };
        if places > self.entries.len() {
            let _ = write!(out, " in {places} places");
        }
        let mut kinds: Vec<&str> = Vec::new();
        let mut sorted: Vec<_> = self.entries.iter().map(|e| e.kind).collect();
        sorted.sort_unstable();
        kinds.extend(sorted.iter().map(|kind| kind.name()));
        let counted = kinds.chunk_by(|a, b| a == b).filter_map(|run| {
            let name = run.first()?;
            Some(if run.len() > 1 { format!("{} {name}", run.len()) } else { (*name).to_owned() })
        });
        let _ = write!(out, " ({})", counted.collect::<Vec<_>>().join(", "));
        let _ = write!(out, "; {} match", nodes(self.pairs.len()));
        if !self.removed.is_empty() {
            let _ = write!(out, ", {} only in the first", self.removed.len());
        }
        if !self.added.is_empty() {
            let _ = write!(out, ", {} only in the second", self.added.len());
        }
        out.push('\n');
        out
    }

    /// The difference for other tools; `left` and `right` are the graphs that it is of:
    ///
    /// ```json
    /// {
    ///   "version": 1, "equal": false, "matched": 415,
    ///   "removed": ["%12"], "added": [],
    ///   "entries": [{
    ///     "kind": "removed", "text": "in layer 3: removed Add(…, self_attn.q_proj.bias)", "count": 1,
    ///     "layers": {"prefix": "model.layers.", "numbers": [3], "of": 28},
    ///     "places": [{"left": ["%12"], "right": []}],
    ///     "left": ["%12: f32[S, 32] = Add(%11, %model.layers.3.self_attn.q_proj.bias)"], "right": []
    ///   }]
    /// }
    /// ```
    ///
    /// - Nodes are their first results, as the text form and the JSON of a graph call them.
    /// - `kind` is one of `input`, `weight`, `changed`, `operands`, `replaced`, `removed`, `added`, `output`.
    /// - `left` and `right` are the statements of the first place; `layers` is null where names tell of none.
    pub fn json(&self, left: &Graph, right: &Graph) -> Value {
        let labels = (Labels::new(left), Labels::new(right));
        let label = |labels: &Labels, id: &NodeId| labels.label(GraphValue { node: *id, port: 0 });
        let list =
            |labels: &Labels, ids: &[NodeId]| -> Vec<String> { ids.iter().map(|id| label(labels, id)).collect() };
        let spot = |spot: &Spot| json!({"left": list(&labels.0, &spot.left), "right": list(&labels.1, &spot.right)});
        let statements = |places: &[Place]| -> Vec<String> { places.iter().map(|p| p.text.clone()).collect() };
        let entry = |entry: &Entry| {
            let layers = entry.layers.as_ref();
            let layers = layers.map(|l| json!({"prefix": l.prefix, "numbers": l.numbers, "of": l.of}));
            json!({
                "kind": entry.kind.name(),
                "text": entry.text,
                "count": entry.count(),
                "layers": layers,
                "places": entry.spots.iter().map(spot).collect::<Vec<_>>(),
                "left": statements(&entry.left),
                "right": statements(&entry.right),
            })
        };
        json!({
            "version": VERSION,
            "equal": self.is_equal(),
            "matched": self.pairs.len(),
            "removed": list(&labels.0, &self.removed),
            "added": list(&labels.1, &self.added),
            "entries": self.entries.iter().map(entry).collect::<Vec<_>>(),
        })
    }
}

impl std::fmt::Display for Diff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl Entry {
    fn write(&self, out: &mut String) {
        out.push_str(&self.text);
        out.push('\n');
        for (sign, places) in [('-', &self.left), ('+', &self.right)] {
            for place in places.iter().take(MOST_LINES) {
                let _ = writeln!(out, "  {sign} {}", place.text);
                if !place.marks.is_empty() {
                    let _ = writeln!(out, "    {}", carets(&place.text, &place.marks));
                }
            }
            let nodes = self.spots.first().map_or(0, |s| if sign == '-' { s.left.len() } else { s.right.len() });
            let more = nodes.max(places.len()).saturating_sub(MOST_LINES);
            if more > 0 {
                let _ = writeln!(out, "  {sign} and {more} more");
            }
        }
    }
}

/// Carets below parts of a line.
fn carets(text: &str, marks: &[Range<usize>]) -> String {
    let below = |(at, _): (usize, char)| if marks.iter().any(|mark| mark.contains(&at)) { '^' } else { ' ' };
    let line: String = text.char_indices().map(below).collect();
    line.trim_end().to_owned()
}
