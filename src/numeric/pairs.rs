//! Which values of two graphs are compared.

use super::Side;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use tallow_ir::diff::{Change, Pair, diff};
use tallow_ir::{Dim, Graph, NodeId, NodeKind, TensorType, Value};

/// A value of the left graph and the one of the right graph that stands for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePair {
    /// The left graph's.
    pub left: Value,
    /// The right graph's.
    pub right: Value,
}

/// The values that two sides have in common, in topological order of the left. The graphs are compared as they were
/// before they were compiled, by structure and then by names; a value that the compiler left, or made anew for another,
/// stands for what it was. So graphs of different stages meet where both still have a value.
///
/// # Errors
/// Graphs that cannot be walked.
pub fn pairs(left: &Side, right: &Side) -> Result<Vec<ValuePair>> {
    let (left_of, right_of) = (compiled(left), compiled(right));
    let own = source_pairs(left, right)?.into_iter();
    let mut found: Vec<ValuePair> =
        own.filter_map(|(p, q)| Some(ValuePair { left: *left_of.get(&p)?, right: *right_of.get(&q)? })).collect();
    let place = places(left.graph());
    found.sort_by_key(|pair| (place[pair.left.node.index()], pair.left.port));
    Ok(found)
}

/// Pairs of the values of both sources: those of operations that structure pairs; of the others those of equal name and
/// shape; at last what structure pairs though operations or names say otherwise.
fn source_pairs(left: &Side, right: &Side) -> Result<Vec<(Value, Value)>> {
    let (a, b) = (left.source.graph(), right.source.graph());
    let mut found = Found::default();
    let label = || format!("{} and {}", left.label, right.label);
    let nodes = diff(a, b).map_err(|e| Error::Graph { file: label(), source: Box::new(e) })?.pairs;
    let nodes: Vec<Pair> = nodes.into_iter().filter(|p| is_op(a, p.left) && is_op(b, p.right)).collect();
    let (in_a, in_b) = (names(a), names(b));
    let replaced = |pair: &Pair| pair.changes.iter().any(|c| matches!(c, Change::Operation { .. }));
    let elsewhere = |graph: &Graph, value: Value, names: &HashMap<&str, Value>, other: &Graph, partner: Value| {
        let named = graph.name_of(value).and_then(|name| names.get(name));
        named.is_some_and(|&v| v != partner && fits(graph.ty(value), other.ty(v)))
    };
    let mut doubtful = Vec::new();
    for pair in &nodes {
        let results: Vec<(Value, Value)> = a.results(pair.left).zip(b.results(pair.right)).collect();
        let contradicted = |&(p, q): &(Value, Value)| elsewhere(a, p, &in_b, b, q) || elsewhere(b, q, &in_a, a, p);
        // What is changed may be another value: a product with a norm folded into its weight.
        if replaced(pair) || (!pair.changes.is_empty() && results.iter().any(contradicted)) {
            doubtful.push((pair, results));
        } else {
            results.into_iter().for_each(|(p, q)| found.add(p, q));
        }
    }
    for id in a.topological().unwrap_or_default() {
        for p in a.results(id) {
            let partner = a.name_of(p).filter(|name| in_a.get(name) == Some(&p)).and_then(|name| in_b.get(name));
            if let Some(&q) = partner.filter(|&&q| fits(a.ty(p), b.ty(q))) {
                found.add(p, q);
            }
        }
    }
    for (pair, results) in doubtful {
        // One of several results tells nothing of which one it is.
        let all = a.node(pair.left).results.len() == b.node(pair.right).results.len();
        if all && results.iter().all(|&(p, q)| fits(a.ty(p), b.ty(q))) {
            results.into_iter().for_each(|(p, q)| found.add(p, q));
        }
    }
    Ok(found.pairs)
}

/// For values of the source of a side, the value of the graph that runs which holds the same.
pub(super) fn compiled(side: &Side) -> HashMap<Value, Value> {
    let (source, graph) = (side.source.graph(), side.graph());
    let origin = &side.program.compiled().origin;
    let named = names(source);
    let place = places(source);
    let mut found = Found::default();
    // Of the operations that one patch made in place of others, the last holds what the last of those held.
    let mut last: HashMap<Value, Value> = HashMap::new();
    let mut rest: Vec<Value> = Vec::new();
    for id in graph.topological().unwrap_or_default().into_iter().filter(|&id| is_op(graph, id)) {
        for value in graph.results(id) {
            match graph.name_of(value).and_then(|name| named.get(name)) {
                Some(&was) if fits(source.ty(was), graph.ty(value)) => found.add(was, value),
                _ => rest.push(value),
            }
        }
    }
    for value in rest {
        let from: &[NodeId] = origin.get(value.node.index()).map_or(&[], Vec::as_slice);
        let results = graph.node(value.node).results.len();
        match from {
            &[one] if source.node(one).results.len() == results => {
                let was = Value { node: one, port: value.port };
                if fits(source.ty(was), graph.ty(value)) {
                    last.insert(was, value);
                }
            }
            many if results == 1 => {
                let ops = many.iter().copied().filter(|&id| is_op(source, id));
                let Some(node) = ops.max_by_key(|id| place[id.index()]) else { continue };
                let was = Value { node, port: 0 };
                if source.node(node).results.len() == 1 && fits(source.ty(was), graph.ty(value)) {
                    last.insert(was, value);
                }
            }
            _ => {}
        }
    }
    last.into_iter().for_each(|(was, value)| found.add(was, value));
    found.pairs.into_iter().collect()
}

/// Pairs of which no value is in two.
#[derive(Default)]
struct Found {
    pairs: Vec<(Value, Value)>,
    left: HashSet<Value>,
    right: HashSet<Value>,
}

impl Found {
    fn add(&mut self, left: Value, right: Value) {
        if !self.left.contains(&left) && !self.right.contains(&right) {
            self.left.insert(left);
            self.right.insert(right);
            self.pairs.push((left, right));
        }
    }
}

fn is_op(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).kind, NodeKind::Op(_))
}

/// The place of each node in topological order, by node number.
fn places(graph: &Graph) -> Vec<usize> {
    let mut place = vec![0; graph.node_bound()];
    for (at, id) in graph.topological().unwrap_or_default().into_iter().enumerate() {
        place[id.index()] = at;
    }
    place
}

/// The results of operations by name, where a name has only one.
fn names(graph: &Graph) -> HashMap<&str, Value> {
    let mut names: HashMap<&str, Option<Value>> = HashMap::new();
    for id in graph.nodes().filter(|&id| is_op(graph, id)) {
        for value in graph.results(id) {
            if let Some(name) = graph.name_of(value) {
                names.entry(name).and_modify(|one| *one = None).or_insert(Some(value));
            }
        }
    }
    names.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Whether two types can hold the same values: sizes that are known are equal.
fn fits(a: &TensorType, b: &TensorType) -> bool {
    let (x, y) = (a.shape.dims(), b.shape.dims());
    let equal = |(p, q): (&Dim, &Dim)| match (p.as_const(), q.as_const()) {
        (Some(p), Some(q)) => p == q,
        _ => true,
    };
    x.len() == y.len() && x.iter().zip(y).all(equal) && a.dtype.range().is_some() == b.dtype.range().is_some()
}
