//! Equality of graphs by structure.

use crate::{Graph, NodeId, NodeKind, Value};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Whether two graphs are the same computation, node for node: the same inputs and outputs in the
/// same order, the same weights, and between them the same operations with the same payloads,
/// operands and recorded types. Blind to the names of values, to node ids, to the order of nodes, to
/// device wishes, and to weights that nothing reads. Sharing counts: a value computed twice is not
/// a value read twice. Results that nothing reads count too.
///
/// Iterative; linear but for a sort of what no output reaches. A cycle that no output reaches is
/// equal to nothing.
pub fn graphs_equal(a: &Graph, b: &Graph) -> bool {
    let same_inputs = a.inputs().map(|(n, _)| n).eq(b.inputs().map(|(n, _)| n));
    let same_outputs = a.outputs().map(|(n, _)| n).eq(b.outputs().map(|(n, _)| n));
    if !same_inputs || !same_outputs {
        return false;
    }
    let mut pairs =
        Pairs { a, b, to_b: vec![None; a.node_bound()], to_a: vec![None; b.node_bound()], open: Vec::new() };
    let inputs = a.inputs().zip(b.inputs());
    let outputs = a.outputs().zip(b.outputs());
    if !inputs.chain(outputs).all(|((_, x), (_, y))| pairs.meet(x, y)) || !pairs.walk() {
        return false;
    }
    // What no output reaches: from the nodes that nothing reads, matched by what they compute.
    let (rest_a, rest_b) = (rest(a, &pairs.to_b), rest(b, &pairs.to_a));
    if rest_a.len() != rest_b.len() {
        return false;
    }
    if rest_a.is_empty() {
        return true;
    }
    let (Some(roots_a), Some(roots_b)) = (roots(a, &rest_a), roots(b, &rest_b)) else {
        return false;
    };
    roots_a.len() == roots_b.len()
        && roots_a.iter().zip(&roots_b).all(|((x, m), (y, n))| x == y && pairs.nodes(*m, *n))
        && pairs.walk()
        && rest(a, &pairs.to_b).is_empty()
}

/// Nodes paired so far, each with at most one partner.
struct Pairs<'g> {
    a: &'g Graph,
    b: &'g Graph,
    to_b: Vec<Option<NodeId>>,
    to_a: Vec<Option<NodeId>>,
    /// Pairs whose operands are still to be compared.
    open: Vec<(NodeId, NodeId)>,
}

impl Pairs<'_> {
    fn meet(&mut self, x: Value, y: Value) -> bool {
        x.port == y.port && self.nodes(x.node, y.node)
    }

    fn nodes(&mut self, x: NodeId, y: NodeId) -> bool {
        match (self.to_b[x.index()], self.to_a[y.index()]) {
            (None, None) => {
                if self.a.node(x) != self.b.node(y) {
                    return false;
                }
                self.to_b[x.index()] = Some(y);
                self.to_a[y.index()] = Some(x);
                self.open.push((x, y));
                true
            }
            (had, _) => had == Some(y),
        }
    }

    fn walk(&mut self) -> bool {
        while let Some((x, y)) = self.open.pop() {
            let (left, right) = (self.a.numbered_operands(x), self.b.numbered_operands(y));
            let same = left.len() == right.len()
                && left.into_iter().zip(right).all(|((i, v), (j, w))| i == j && self.meet(v, w));
            if !same {
                return false;
            }
        }
        true
    }
}

/// Nodes without a partner that count.
fn rest(graph: &Graph, partner: &[Option<NodeId>]) -> Vec<NodeId> {
    graph
        .nodes()
        .filter(|id| partner[id.index()].is_none())
        .filter(|&id| match graph.node(id).kind {
            NodeKind::Weight(_) => graph.is_read(id),
            NodeKind::Input(_) | NodeKind::Op(_) => true,
        })
        .collect()
}

/// Those of `nodes` that nothing reads, by a hash of all they depend on; `None` with a cycle.
fn roots(graph: &Graph, nodes: &[NodeId]) -> Option<Vec<(u64, NodeId)>> {
    let mut hashes = vec![0u64; graph.node_bound()];
    for id in graph.topological()? {
        let mut hasher = DefaultHasher::new();
        let node = graph.node(id);
        node.kind.hash(&mut hasher);
        node.results.hash(&mut hasher);
        for (number, value) in graph.numbered_operands(id) {
            (number, value.port, hashes[value.node.index()]).hash(&mut hasher);
        }
        hashes[id.index()] = hasher.finish();
    }
    let mut roots: Vec<(u64, NodeId)> =
        nodes.iter().filter(|&&id| !graph.is_read(id)).map(|&id| (hashes[id.index()], id)).collect();
    roots.sort_unstable();
    Some(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Shape, TensorType};

    fn f(dims: &[i64]) -> TensorType {
        TensorType::f32(Shape::fixed(dims))
    }

    /// Two parts of `x`, one with a weight, summed; `swap` builds them in the other order.
    fn build(swap: bool, order: bool, spare: bool) -> Graph {
        let mut g = Graph::new();
        let x = g.input("x", f(&[4])).unwrap();
        if spare {
            g.weight("spare", f(&[9])).unwrap();
        }
        let mut parts = Vec::new();
        for first in if swap { [false, true] } else { [true, false] } {
            let v = if first {
                g.op(Op::Neg, &[x]).unwrap()
            } else {
                let w = g.weight("w", f(&[4])).unwrap();
                g.op(Op::Mul, &[x, w]).unwrap()
            };
            g.name(v, if swap { "other" } else { "name" });
            parts.push(v);
        }
        if swap != order {
            parts.reverse();
        }
        let y = g.op(Op::Sub, &parts).unwrap();
        g.output("y", y).unwrap();
        g
    }

    #[test]
    fn names_ids_and_order_of_nodes_do_not_count_operand_order_does() {
        let g = build(false, false, false);
        assert!(graphs_equal(&g, &build(true, false, true)));
        assert!(!graphs_equal(&g, &build(true, true, false)));
    }

    #[test]
    fn sharing_types_payload_interface_and_unread_results_count() {
        let make = |twice: bool, eps: f32, name: &str, dead: usize| {
            let mut g = Graph::new();
            let x = g.input("x", f(&[4])).unwrap();
            let a = g.op(Op::AddScalar { value: eps.into() }, &[x]).unwrap();
            let b = if twice { g.op(Op::AddScalar { value: eps.into() }, &[x]).unwrap() } else { a };
            let y = g.op(Op::Add, &[a, b]).unwrap();
            for i in 0..dead {
                g.op(Op::MulScalar { value: (i as f32).into() }, &[a]).unwrap();
            }
            g.output(name, y).unwrap();
            g
        };
        let g = make(false, 1.0, "y", 2);
        assert!(graphs_equal(&g, &make(false, 1.0, "y", 2)));
        assert!(!graphs_equal(&g, &make(true, 1.0, "y", 2)));
        assert!(!graphs_equal(&make(true, 1.0, "y", 2), &g));
        assert!(!graphs_equal(&g, &make(false, 2.0, "y", 2)));
        assert!(!graphs_equal(&g, &make(false, 1.0, "z", 2)));
        assert!(!graphs_equal(&g, &make(false, 1.0, "y", 1)));
        let mut other = make(false, 1.0, "y", 2);
        let y = other.output_named("y").unwrap();
        other.set_results(y.node, vec![f(&[5])]);
        assert!(!graphs_equal(&g, &other));
    }
}
