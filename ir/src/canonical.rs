//! One form for all graphs that are the same computation, and the first place where two graphs part.

use crate::text::Labels;
use crate::{Dim, Graph, IrError, NodeId, NodeKind, Shape, TensorType, Value};

/// A graph without names of values, its nodes in the order in which its outputs need them.
#[derive(Clone, Debug)]
pub struct Canonical {
    /// The graph: equal graphs (see [`graphs_equal`](crate::graphs_equal)) give the same text form, but for what no
    /// output needs, which is left out, and whatever their symbols are called.
    pub graph: Graph,
    /// For each of its nodes, by number, the node that it comes from.
    pub origin: Vec<NodeId>,
}

/// The canonical form: inputs in their order, then what the outputs need, operands before their readers.
///
/// # Errors
/// A graph with a cycle, or with a name used twice.
pub fn canonical(graph: &Graph) -> Result<Canonical, IrError> {
    let mut out = Graph::new();
    let mut origin = Vec::new();
    let mut made: Vec<Option<NodeId>> = vec![None; graph.node_bound()];
    // Symbols are numbered in the order in which inputs have them: their names are the writer's.
    let mut symbols: Vec<String> = Vec::new();
    for (_, value) in graph.inputs() {
        for symbol in graph.ty(value).shape.dims().iter().flat_map(|d| d.symbols()) {
            if !symbols.iter().any(|s| s == symbol) {
                symbols.push(symbol.to_owned());
            }
        }
    }
    let renamed = |ty: &TensorType| -> TensorType {
        if symbols.is_empty() {
            return ty.clone();
        }
        let dims = ty.shape.dims().iter().map(|dim| {
            // By way of names that no graph has, so that none is renamed twice.
            let there = symbols
                .iter()
                .enumerate()
                .try_fold(dim.clone(), |d, (i, name)| d.substitute(name, &Dim::symbol(&format!("\u{1}{i}"))));
            let back = |d: Dim| {
                (0..symbols.len())
                    .try_fold(d, |d, i| d.substitute(&format!("\u{1}{i}"), &Dim::symbol(&format!("d{i}"))))
            };
            there.and_then(back).unwrap_or_else(|| dim.clone())
        });
        TensorType::new(ty.dtype, Shape::new(dims))
    };
    for (name, value) in graph.inputs() {
        let new = out.input(name, renamed(graph.ty(value)))?;
        made[value.node.index()] = Some(new.node);
        origin.push(value.node);
    }
    // Depth first without recursion: a node is made when it is met again after its operands.
    let mut open: Vec<(NodeId, bool)> = Vec::new();
    let mut waiting = vec![false; graph.node_bound()];
    for (_, value) in graph.outputs() {
        open.push((value.node, false));
        while let Some((id, ready)) = open.pop() {
            if made[id.index()].is_some() {
                continue;
            }
            let node = graph.node(id);
            let operands = graph.operands(id);
            if !ready {
                // Only an operand of its own operands meets a node that waits for them.
                if std::mem::replace(&mut waiting[id.index()], true) {
                    return Err(IrError::NoValue { node: id.index(), port: 0 });
                }
                open.push((id, true));
                open.extend(operands.iter().rev().filter(|v| made[v.node.index()].is_none()).map(|v| (v.node, false)));
                continue;
            }
            let new = match &node.kind {
                NodeKind::Input(name) => out.input(name, renamed(&node.results[0]))?.node,
                NodeKind::Weight(name) => out.weight(name, node.results[0].clone())?.node,
                NodeKind::Op(op) => {
                    let operands: Vec<Value> = operands
                        .iter()
                        .filter_map(|v| made[v.node.index()].map(|node| Value { node, port: v.port }))
                        .collect();
                    out.op_node(op.clone(), &operands, node.results.iter().map(&renamed).collect())
                }
            };
            made[id.index()] = Some(new);
            origin.push(id);
        }
    }
    for (name, value) in graph.outputs() {
        if let Some(node) = made[value.node.index()] {
            out.output(name, Value { node, port: value.port })?;
        }
    }
    let unnamed: Vec<Value> =
        out.nodes().filter(|&id| matches!(out.node(id).kind, NodeKind::Op(_))).flat_map(|id| out.results(id)).collect();
    unnamed.into_iter().for_each(|value| out.forget_name(value));
    Ok(Canonical { graph: out, origin })
}

/// Where two graphs part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The statement of the first graph there, if it has one, in its own names.
    pub left: Option<Place>,
    /// That of the second.
    pub right: Option<Place>,
    /// In what they differ, in words: attributes, an operand, or the operation.
    pub how: String,
}

/// A statement of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node; none for an output.
    pub node: Option<NodeId>,
    /// The statement.
    pub text: String,
}

/// The first operation, in the order in which outputs need them, that two graphs do not share; then inputs, weights and
/// outputs. `None` where the graphs are equal as far as their outputs tell.
///
/// # Errors
/// As [`canonical`].
pub fn first_difference(left: &Graph, right: &Graph) -> Result<Option<Parting>, IrError> {
    let (a, b) = (canonical(left)?, canonical(right)?);
    let operations = |c: &Canonical| -> Vec<NodeId> {
        c.graph.nodes().filter(|&id| matches!(c.graph.node(id).kind, NodeKind::Op(_))).collect()
    };
    let (a_ops, b_ops) = (operations(&a), operations(&b));
    let (a_labels, b_labels) = (Labels::new(&a.graph), Labels::new(&b.graph));
    for at in 0..a_ops.len().max(b_ops.len()) {
        let (x, y) = (a_ops.get(at).copied(), b_ops.get(at).copied());
        let x_text = x.map(|id| a_labels.line(&a.graph, id).text);
        let y_text = y.map(|id| b_labels.line(&b.graph, id).text);
        if x_text != y_text {
            let how = match (x, y) {
                (Some(x), Some(y)) => how(Side::new(left, &a, x), Side::new(right, &b, y)),
                (Some(_), None) => "the first goes on where the second ends".to_owned(),
                _ => "the second goes on where the first ends".to_owned(),
            };
            return Ok(Some(Parting { left: shown(left, &a, x), right: shown(right, &b, y), how }));
        }
    }
    let rest = |c: &Canonical, labels: &Labels| -> Vec<(Option<NodeId>, String)> {
        let mut lines: Vec<(Option<NodeId>, String)> = c
            .graph
            .nodes()
            .filter(|&id| !matches!(c.graph.node(id).kind, NodeKind::Op(_)))
            .map(|id| (Some(id), labels.line(&c.graph, id).text))
            .collect();
        for (name, value) in c.graph.outputs() {
            let mut line = String::new();
            labels.output(name, value, &mut line);
            lines.push((None, line.trim_start().to_owned()));
        }
        lines
    };
    let (x, y) = (rest(&a, &a_labels), rest(&b, &b_labels));
    for at in 0..x.len().max(y.len()) {
        let (l, r) = (x.get(at), y.get(at));
        if l.map(|(_, t)| t) == r.map(|(_, t)| t) {
            continue;
        }
        let place = |c: &Canonical, of: Option<&(Option<NodeId>, String)>| {
            of.map(|(id, text)| Place { node: id.map(|id| c.origin[id.index()]), text: text.clone() })
        };
        let how = "they take or give something else".to_owned();
        return Ok(Some(Parting { left: place(&a, l), right: place(&b, r), how }));
    }
    Ok(None)
}

/// An operation in both forms of its graph.
struct Side<'g> {
    graph: &'g Graph,
    canonical: &'g Canonical,
    id: NodeId,
}

impl<'g> Side<'g> {
    fn new(graph: &'g Graph, canonical: &'g Canonical, id: NodeId) -> Self {
        Side { graph, canonical, id }
    }

    /// An operand as the original graph writes it.
    fn operand(&self, at: usize) -> String {
        let own = self.canonical.origin[self.id.index()];
        match self.graph.operands(own).get(at) {
            Some(&value) => Labels::new(self.graph).label(value),
            None => "nothing".to_owned(),
        }
    }
}

/// In what two operations differ.
fn how(a: Side<'_>, b: Side<'_>) -> String {
    let (x, y) = (a.canonical.graph.node(a.id), b.canonical.graph.node(b.id));
    let (NodeKind::Op(p), NodeKind::Op(q)) = (&x.kind, &y.kind) else { return "they are not operations".to_owned() };
    if p.name() != q.name() {
        return format!("the first does {} where the second does {}", p.name(), q.name());
    }
    for ((name, left), (_, right)) in p.fields().into_iter().zip(q.fields()) {
        if left != right {
            return format!("`{name}` is {left} in the first and {right} in the second");
        }
    }
    // Both forms number values alike up to here, so that equal operands have equal ids.
    let (left, right) = (a.canonical.graph.operands(a.id), b.canonical.graph.operands(b.id));
    let same = |v: Value, w: Value| {
        let (m, n) = (a.canonical.graph.node(v.node), b.canonical.graph.node(w.node));
        match (&m.kind, &n.kind) {
            (NodeKind::Op(_), NodeKind::Op(_)) => {
                rank(a.canonical, v.node) == rank(b.canonical, w.node) && v.port == w.port
            }
            (left, right) => left == right,
        }
    };
    for at in 0..left.len().max(right.len()) {
        let equal = matches!((left.get(at), right.get(at)), (Some(&v), Some(&w)) if same(v, w));
        if !equal {
            return format!("operand {at} is {} in the first and {} in the second", a.operand(at), b.operand(at));
        }
    }
    "its result has another type".to_owned()
}

/// The number of an operation among operations.
fn rank(canonical: &Canonical, id: NodeId) -> usize {
    canonical
        .graph
        .nodes()
        .take_while(|&n| n != id)
        .filter(|&n| matches!(canonical.graph.node(n).kind, NodeKind::Op(_)))
        .count()
}

/// A node of the canonical form as the original graph writes it.
fn shown(graph: &Graph, canonical: &Canonical, id: Option<NodeId>) -> Option<Place> {
    let id = *canonical.origin.get(id?.index())?;
    Some(Place { node: Some(id), text: Labels::new(graph).line(graph, id).text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Shape, TensorType, graphs_equal, text};

    /// `(x + w) · (−x)`, its parts made in either order, with an ε to change.
    fn build(swap: bool, names: &str, scale: f32) -> Graph {
        let mut g = Graph::new();
        let ty = TensorType::f32(Shape::fixed(&[4]));
        let x = g.input("x", ty.clone()).unwrap();
        let mut sum = None;
        let mut minus = None;
        for first in [!swap, swap] {
            if first {
                let w = g.weight("w", ty.clone()).unwrap();
                sum = Some(g.op(Op::Add, &[x, w]).unwrap());
            } else {
                let scaled = g.op(Op::MulScalar { value: scale.into() }, &[x]).unwrap();
                minus = Some(g.op(Op::Neg, &[scaled]).unwrap());
            }
        }
        let y = g.op(Op::Mul, &[sum.unwrap(), minus.unwrap()]).unwrap();
        g.name(y, names);
        g.output("y", y).unwrap();
        g
    }

    #[test]
    fn equal_graphs_have_one_form_and_no_difference() {
        let (a, b) = (build(false, "a", 2.0), build(true, "b", 2.0));
        assert!(graphs_equal(&a, &b));
        let form = |g: &Graph| text::print(&canonical(g).unwrap().graph);
        assert_eq!(form(&a), form(&b));
        assert_eq!(first_difference(&a, &b).unwrap(), None);
        let again = text::parse(&form(&a)).unwrap();
        assert!(graphs_equal(&a, &again));
    }

    #[test]
    fn the_first_statement_that_differs_is_found_in_own_names() {
        let (a, mut b) = (build(false, "a", 2.0), build(true, "b", 3.0));
        let found = first_difference(&a, &b).unwrap().unwrap();
        assert!(found.left.unwrap().text.contains("{ value = 2 }"));
        assert!(found.right.unwrap().text.contains("{ value = 3 }"));
        b = build(true, "b", 2.0);
        let more = b.output_named("y").unwrap();
        b.output("z", more).unwrap();
        let found = first_difference(&a, &b).unwrap().unwrap();
        assert_eq!((found.left, found.right.unwrap().text.contains("z")), (None, true));
    }

    #[test]
    fn long_chains_and_cycles_end() {
        let mut g = Graph::new();
        let mut x = g.input("x", TensorType::f32(Shape::fixed(&[1]))).unwrap();
        for _ in 0..100_000 {
            x = g.op(Op::Add, &[x, x]).unwrap();
        }
        g.output("y", x).unwrap();
        assert_eq!(canonical(&g).unwrap().origin.len(), 100_001);
        let mut g = Graph::new();
        let x = g.input("x", TensorType::f32(Shape::fixed(&[1]))).unwrap();
        let a = g.op(Op::Neg, &[x]).unwrap();
        let b = g.op(Op::Neg, &[a]).unwrap();
        g.set_operand(a.node, 0, b).unwrap();
        g.output("y", b).unwrap();
        assert!(canonical(&g).is_err());
    }
}
