//! Printing: labels of values, then one statement a node.

use super::{is_number, name, quote};
use crate::{Graph, NodeId, NodeKind, TensorType, Value, hint::hint_name};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// The text form of `graph`: the same bytes for the same graph. Inputs and weights come first, then
/// operations, each after those it reads, then outputs. A graph with a cycle prints in order of
/// creation, so that it can be shown in errors.
pub fn print(graph: &Graph) -> String {
    let labels = Labels::new(graph);
    let mut out = String::from("graph {\n");
    for id in labels.order() {
        labels.statement(graph, *id, &mut out, None);
        out.push('\n');
    }
    for (output, value) in graph.outputs() {
        labels.output(output, value, &mut out);
        out.push('\n');
    }
    out.push_str("}\n");
    out
}

impl std::fmt::Display for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(self))
    }
}

/// How each value of a graph is written, and in which order the nodes stand. Names are made unique
/// by `.1`, `.2` …; values without a name are numbered.
pub struct Labels {
    order: Vec<NodeId>,
    /// Where the labels of a node begin, by node number.
    start: Vec<u32>,
    labels: Vec<Label>,
    cyclic: bool,
}

enum Label {
    Number(u32),
    Text(Box<str>),
}

/// The statement of one node, with the byte ranges of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The statement, without indent and line break.
    pub text: String,
    /// The name of the operation, or `input`, or `weight`.
    pub op: Range<usize>,
    /// Each result with its type.
    pub results: Vec<Range<usize>>,
    /// The type of each result.
    pub types: Vec<Range<usize>>,
    /// Each operand.
    pub operands: Vec<Range<usize>>,
    /// The operands with their brackets.
    pub list: Range<usize>,
    /// Each attribute by name.
    pub attributes: Vec<(&'static str, Range<usize>)>,
}

impl Labels {
    /// Labels of every value of `graph`.
    pub fn new(graph: &Graph) -> Self {
        let mut order: Vec<NodeId> = Vec::with_capacity(graph.len());
        order.extend(graph.inputs().map(|(_, v)| v.node));
        order.extend(graph.weights().map(|(_, v)| v.node));
        let sorted = graph.topological();
        let cyclic = sorted.is_none();
        let sorted = sorted.unwrap_or_else(|| graph.nodes().collect());
        order.extend(sorted.into_iter().filter(|&id| matches!(graph.node(id).kind, NodeKind::Op(_))));
        let mut start = vec![0; graph.node_bound()];
        let mut labels = Vec::with_capacity(order.len());
        let mut taken: HashMap<Cow<'_, str>, u32> = HashMap::with_capacity(order.len());
        let mut unnamed = 0;
        for &id in &order {
            start[id.index()] = labels.len() as u32;
            for value in graph.results(id) {
                let own = match &graph.node(id).kind {
                    NodeKind::Input(name) => Some(name.as_str()),
                    NodeKind::Weight(name) => Some(graph.name_of(value).unwrap_or(name)),
                    NodeKind::Op(_) => graph.name_of(value),
                };
                labels.push(match own {
                    Some(own) => Label::Text(unique(&mut taken, own).into()),
                    None => {
                        unnamed += 1;
                        Label::Number(unnamed - 1)
                    }
                });
            }
        }
        Labels { order, start, labels, cyclic }
    }

    /// Whether the graph has a cycle, so that the order is that of creation.
    pub(crate) fn is_cyclic(&self) -> bool {
        self.cyclic
    }

    /// The nodes in the order of the text.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The label of a value: `%h`, `%12`, `%"odd name"`.
    pub fn label(&self, value: Value) -> String {
        let mut out = String::new();
        self.write_label(value, &mut out);
        out
    }

    /// The name of a value as [`Labels`] made it unique; `None` where it is a number.
    pub(crate) fn unique_name(&self, value: Value) -> Option<&str> {
        match self.get(value) {
            Some(Label::Text(text)) => Some(text),
            Some(Label::Number(_)) | None => None,
        }
    }

    /// The statement of a node with its parts.
    pub fn line(&self, graph: &Graph, id: NodeId) -> Line {
        let mut line = Line::default();
        let mut text = String::new();
        self.statement(graph, id, &mut text, Some(&mut line));
        let indent = text.len() - text.trim_start().len();
        let shift = |r: &mut Range<usize>| *r = r.start - indent..r.end - indent;
        for range in [&mut line.op, &mut line.list]
            .into_iter()
            .chain(&mut line.results)
            .chain(&mut line.types)
            .chain(&mut line.operands)
            .chain(line.attributes.iter_mut().map(|(_, r)| r))
        {
            if *range != (0..0) {
                shift(range);
            }
        }
        line.text = text.split_off(indent);
        line
    }

    fn get(&self, value: Value) -> Option<&Label> {
        let start = *self.start.get(value.node.index())? as usize;
        self.labels.get(start + value.port as usize)
    }

    fn write_label(&self, value: Value, out: &mut String) {
        out.push('%');
        let _ = match self.get(value) {
            Some(Label::Number(n)) => write!(out, "{n}"),
            Some(Label::Text(text)) => {
                // A name that looks like a number is quoted, so that it stays a name.
                if is_number(text) {
                    quote(out, text);
                } else {
                    name(out, text);
                }
                Ok(())
            }
            None => write!(out, "?{}.{}", value.node.index(), value.port),
        };
    }

    /// Appends the statement of an output.
    pub(crate) fn output(&self, output: &str, value: Value, out: &mut String) {
        out.push_str("  output ");
        name(out, output);
        out.push_str(" = ");
        self.write_label(value, out);
    }

    /// Appends the statement of a node, indented; ranges in `parts` count from the start of `out`.
    fn statement(&self, graph: &Graph, id: NodeId, out: &mut String, parts: Option<&mut Line>) {
        let mut unused = Line::default();
        let wanted = parts.is_some();
        let parts = parts.unwrap_or(&mut unused);
        let node = graph.node(id);
        out.push_str("  ");
        let begin = out.len();
        match &node.kind {
            NodeKind::Input(_) => out.push_str("input"),
            NodeKind::Weight(_) => out.push_str("weight"),
            NodeKind::Op(_) => {}
        }
        if out.len() > begin {
            parts.op = begin..out.len();
            out.push(' ');
        }
        for (port, ty) in node.results.iter().enumerate() {
            if port > 0 {
                out.push_str(", ");
            }
            let from = out.len();
            self.write_label(Value { node: id, port: port as u32 }, out);
            if let NodeKind::Weight(weight) = &node.kind {
                out.push_str(" = ");
                quote(out, weight);
            }
            out.push_str(": ");
            let at = out.len();
            write_type(ty, out);
            if wanted {
                parts.results.push(from..out.len());
                parts.types.push(at..out.len());
            }
        }
        if let NodeKind::Op(op) = &node.kind {
            out.push_str(if node.results.is_empty() { "= " } else { " = " });
            let at = out.len();
            out.push_str(op.name());
            parts.op = at..out.len();
            let at = out.len();
            out.push('(');
            for (i, operand) in graph.operands(id).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                let from = out.len();
                self.write_label(operand, out);
                if wanted {
                    parts.operands.push(from..out.len());
                }
            }
            out.push(')');
            parts.list = at..out.len();
            if !op.info().fields.is_empty() {
                out.push_str(" { ");
                let at = out.len();
                for (name, text) in op.fields() {
                    if out.len() > at {
                        out.push_str(", ");
                    }
                    let from = out.len();
                    let _ = write!(out, "{name} = {text}");
                    if wanted {
                        parts.attributes.push((name, from..out.len()));
                    }
                }
                out.push_str(" }");
            }
        }
        if let Some(hint) = graph.hint(id) {
            let _ = match hint_name(hint) {
                Some(name) => write!(out, " @{name}"),
                None => write!(out, " @{hint}"),
            };
        }
    }
}

fn write_type(ty: &TensorType, out: &mut String) {
    let _ = write!(out, "{ty}");
}

/// `name`, or `name.1`, `name.2` … where it is taken already.
pub(crate) fn unique<'a>(taken: &mut HashMap<Cow<'a, str>, u32>, name: &'a str) -> String {
    let mut next = match taken.get(name) {
        None => {
            taken.insert(Cow::Borrowed(name), 0);
            return name.to_owned();
        }
        Some(n) => *n,
    };
    loop {
        next += 1;
        let candidate = format!("{name}.{next}");
        if !taken.contains_key(candidate.as_str()) {
            taken.insert(Cow::Borrowed(name), next);
            taken.insert(Cow::Owned(candidate.clone()), 0);
            return candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Dim, Op, Shape};

    #[test]
    fn prints_the_documented_form() {
        let mut g = Graph::new();
        let ids = g.input("input_ids", TensorType::i64(Shape::new([Dim::symbol("S")]))).unwrap();
        let w = g.weight("model.embed_tokens.weight", TensorType::new(DType::Q8, Shape::fixed(&[64, 8]))).unwrap();
        g.name(w, "embed");
        let h = g.op(Op::TokenEmbed, &[ids, w]).unwrap();
        g.name(h, "h");
        let parts = g.op_many(Op::Split { axis: 1, sizes: vec![4, 4] }, &[h]).unwrap();
        g.name(parts[0], "h");
        g.name(parts[1], "5");
        let y = g.op(Op::Add, &parts).unwrap();
        g.set_hint(y.node, 5);
        let z = g.op(Op::Clamp { min: None, max: Some(1e-6.into()) }, &[y]).unwrap();
        g.set_hint(z.node, 9);
        g.output("logits", z).unwrap();
        g.output("odd name", ids).unwrap();
        assert_eq!(
            print(&g),
            r#"graph {
  input %input_ids: i64[S]
  weight %embed = "model.embed_tokens.weight": q8[64, 8]
  %h: f32[S, 8] = TokenEmbed(%input_ids, %embed)
  %h.1: f32[S, 4], %"5": f32[S, 4] = Split(%h) { axis = 1, sizes = [4, 4] }
  %0: f32[S, 4] = Add(%h.1, %"5") @cuda
  %1: f32[S, 4] = Clamp(%0) { min = none, max = 1e-6 } @9
  output logits = %1
  output "odd name" = %input_ids
}
"#
        );
        let line = Labels::new(&g).line(&g, parts[0].node);
        assert_eq!(&line.text[line.op.clone()], "Split");
        assert_eq!(&line.text[line.types[1].clone()], "f32[S, 4]");
        assert_eq!(&line.text[line.operands[0].clone()], "%h");
        assert_eq!(&line.text[line.attributes[0].1.clone()], "axis = 1");
        assert_eq!(&line.text[line.attributes[1].1.clone()], "sizes = [4, 4]");
    }
}
