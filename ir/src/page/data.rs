//! What a page knows of a graph, as JSON. The keys are short, since there are many of them:
//!
//! ```json
//! {
//!   "title": "…", "subtitle": "…", "head": ["22 nodes: …"], "source": {"name": "a.rs", "text": "…"},
//!   "classes": [{"key": "matmul", "label": "matrix product"}],
//!   "ops": [{"name": "Matmul", "class": 0, "doc": "…", "operands": "x W", "results": "y", "fields": [], "effect": ""}],
//!   "types": ["f32[S, 8]"],
//!   "nodes": [{"o": 0, "n": ["%y"], "t": [0], "i": [4, [7, 1]], "a": ["1e-6"], "h": "cuda", "s": [12, 3], "r": [["pass", 1, "text", 7]]}],
//!   "groups": [{"kind": "layer", "label": "layer 3", "from": 8, "to": 29, "parent": 2, "look": 5}]
//! }
//! ```
//!
//! Nodes are the operations in the order of the text form, then inputs, weights and outputs; the last three have
//! `k` (`"input"`, `"weight"` or `"output"`) and a name `w`. What a node reads (`i`) is a node's number, with the number of the
//! result where it is not the first. `types` holds each type once. What is empty is left out.

use super::About;
use super::class::Class;
use crate::dump::{Counts, GroupKind, Tree};
use crate::hint::hint_name;
use crate::ops::Effect;
use crate::{Graph, NodeId, NodeKind, Op, OpInfo, Value as GraphValue};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Longer attributes, as of constants, are cut in a page.
const LONGEST_ATTRIBUTE: usize = 400;

/// The number that each node has in a page, by node number; `u32::MAX` for none.
pub(super) struct Numbers(Vec<u32>);

impl Numbers {
    /// The numbers of inputs and weights follow those of the operations; outputs are no nodes of a graph.
    pub fn of(tree: &Tree<'_>) -> Self {
        let graph = tree.listing.graph;
        let mut numbers = vec![u32::MAX; graph.node_bound()];
        let operations = (0..tree.listing.len()).map(|place| tree.listing.node(place));
        let others = graph.inputs().chain(graph.weights()).map(|(_, v)| v.node);
        for (number, node) in (0u32..).zip(operations.chain(others)) {
            if let Some(slot) = numbers.get_mut(node.index()) {
                *slot = number;
            }
        }
        Numbers(numbers)
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.0.iter().filter(|&&n| n != u32::MAX).count()
    }

    /// The number of a node.
    pub fn get(&self, node: NodeId) -> Option<u32> {
        self.0.get(node.index()).copied().filter(|&n| n != u32::MAX)
    }

    fn value(&self, value: GraphValue) -> Value {
        match (self.get(value.node), value.port) {
            (Some(node), 0) => json!(node),
            (Some(node), port) => json!([node, port]),
            (None, _) => Value::Null,
        }
    }
}

/// Appends a graph for a page. Nodes are written one by one: as a tree of values they would take many times
/// the memory of their text.
pub(super) fn graph(tree: &Tree<'_>, about: &About, out: &mut String) {
    let numbers = Numbers::of(tree);
    let mut writer = Writer { tree, about, numbers, ops: IndexMap::new(), types: IndexMap::new() };
    let mut first = true;
    let mut put = |node: Value| {
        out.push_str(if std::mem::take(&mut first) { "{\"nodes\":[" } else { "," });
        let _ = write!(out, "{node}");
    };
    (0..tree.listing.len()).for_each(|place| put(writer.operation(place)));
    let graph = tree.listing.graph;
    graph.inputs().for_each(|(name, value)| put(writer.leaf("input", name, value)));
    graph.weights().for_each(|(name, value)| put(writer.leaf("weight", name, value)));
    graph.outputs().for_each(|(name, value)| put(writer.output(name, value)));
    let Writer { ops, types, .. } = writer;
    if first {
        out.push_str("{\"nodes\":[");
    }
    let rest = json!({
        "title": about.title,
        "subtitle": about.subtitle,
        "head": Counts::of(&tree.listing).lines(),
        "source": about.source.as_ref().map(|s| json!({ "name": s.name, "text": s.text })),
        "classes": Class::ALL.map(|c| json!({ "key": c.key(), "label": c.label() })),
        "ops": ops.into_values().collect::<Vec<_>>(),
        "types": types.into_keys().collect::<Vec<_>>(),
        "groups": groups(tree),
    });
    let _ = write!(out, "],{}", rest.to_string().trim_start_matches('{'));
}

struct Writer<'a, 'g> {
    tree: &'a Tree<'g>,
    about: &'a About,
    numbers: Numbers,
    /// The operations that occur, by name.
    ops: IndexMap<&'static str, Value>,
    types: IndexMap<String, ()>,
}

impl Writer<'_, '_> {
    fn graph(&self) -> &Graph {
        self.tree.listing.graph
    }

    fn ty(&mut self, value: GraphValue) -> usize {
        let text = self.graph().try_ty(value).map(ToString::to_string).unwrap_or_default();
        let next = self.types.len();
        self.types.insert_full(text, ()).0.min(next)
    }

    fn op(&mut self, op: &Op) -> usize {
        let info = op.info();
        let entry = self.ops.entry(info.name);
        let at = entry.index();
        entry.or_insert_with(|| facts(info, Class::of(op)));
        at
    }

    fn operation(&mut self, place: usize) -> Value {
        let listing = &self.tree.listing;
        let id = listing.node(place);
        let NodeKind::Op(op) = &listing.graph.node(id).kind else { return Value::Null };
        let reads: Vec<Value> = listing.operands(place).iter().map(|&v| self.numbers.value(v)).collect();
        let names: Vec<String> = listing.graph.results(id).map(|v| listing.labels.label(v)).collect();
        let fields: Vec<String> = op.fields().into_iter().map(|(_, text)| shortened(text)).collect();
        let mut node = Map::new();
        node.insert("o".into(), json!(self.op(op)));
        node.insert("n".into(), json!(names));
        let types: Vec<usize> = listing.graph.results(id).map(|v| self.ty(v)).collect();
        node.insert("t".into(), json!(types));
        if !reads.is_empty() {
            node.insert("i".into(), json!(reads));
        }
        if !fields.is_empty() {
            node.insert("a".into(), json!(fields));
        }
        if let Some(hint) = listing.graph.hint(id) {
            node.insert("h".into(), hint_name(hint).map_or_else(|| json!(hint.to_string()), |name| json!(name)));
        }
        self.told(id, &mut node);
        Value::Object(node)
    }

    /// An input or a weight.
    fn leaf(&mut self, kind: &str, name: &str, value: GraphValue) -> Value {
        let label = self.tree.listing.labels.label(value);
        let mut node = Map::new();
        node.insert("k".into(), json!(kind));
        node.insert("w".into(), json!(name));
        node.insert("n".into(), json!([label]));
        node.insert("t".into(), json!([self.ty(value)]));
        self.told(value.node, &mut node);
        Value::Object(node)
    }

    fn output(&mut self, name: &str, value: GraphValue) -> Value {
        json!({ "k": "output", "w": name, "n": [], "t": [self.ty(value)], "i": [self.numbers.value(value)] })
    }

    /// What is known about a node besides itself.
    fn told(&self, id: NodeId, node: &mut Map<String, Value>) {
        if let Some(&(line, column)) = self.about.spans.get(&id) {
            node.insert("s".into(), json!([line, column]));
        }
        if let Some(remarks) = self.about.remarks.get(&id).filter(|r| !r.is_empty()) {
            let remark = |r: &super::Remark| match r.number {
                Some(number) => json!([r.pass, u8::from(r.applied), r.text, number]),
                None => json!([r.pass, u8::from(r.applied), r.text]),
            };
            node.insert("r".into(), remarks.iter().map(remark).collect());
        }
    }
}

fn facts(info: &'static OpInfo, class: Class) -> Value {
    let effect = match info.effect {
        Effect::Pure => "",
        Effect::State => "reads and writes state of the session",
        Effect::Random => "draws random numbers",
        Effect::Host => "calls a function of the running program",
    };
    let at = Class::ALL.iter().position(|c| *c == class).unwrap_or(0);
    json!({
        "name": info.name,
        "class": at,
        "doc": info.doc,
        "operands": info.operands,
        "results": info.results,
        "fields": info.fields.iter().map(|f| f.name).collect::<Vec<_>>(),
        "effect": effect,
    })
}

fn groups(tree: &Tree<'_>) -> Vec<Value> {
    let kind = |kind: GroupKind| match kind {
        GroupKind::Module => "module",
        GroupKind::Layer => "layer",
        GroupKind::Stack => "stack",
        GroupKind::Part => "part",
    };
    let group = |g: &crate::dump::Group| {
        json!({
            "kind": kind(g.kind),
            "label": g.label,
            "from": g.range.start,
            "to": g.range.end,
            "parent": g.parent,
            "look": g.look,
        })
    };
    tree.groups.iter().map(group).collect()
}

fn shortened(text: String) -> String {
    let length = text.chars().count();
    if length <= LONGEST_ATTRIBUTE {
        return text;
    }
    let shown: String = text.chars().take(LONGEST_ATTRIBUTE).collect();
    format!("{shown}… ({length} characters)")
}
