//! Which values of two graphs are compared.

use super::Side;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use tallow_ir::diff::{Change, Pair, diff};
use tallow_ir::{Dim, Graph, NodeKind, TensorType, Value};

/// A value of the left graph and the one of the right graph that stands for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePair {
    /// The left graph's.
    pub left: Value,
    /// The right graph's.
    pub right: Value,
}

/// The values that two graphs have in common: those of operations that structure pairs; of the others those of equal name
/// and shape, so that graphs of different stages meet where both still have a value; at last those of different
/// operations in the same place. In topological order of the left.
///
/// # Errors
/// Graphs that cannot be walked.
pub fn pairs(left: &Side, right: &Side) -> Result<Vec<ValuePair>> {
    let (a, b) = (left.graph(), right.graph());
    let mut found = Found::default();
    let label = || format!("{} and {}", left.label, right.label);
    let nodes = diff(a, b).map_err(|e| Error::Graph { file: label(), source: Box::new(e) })?.pairs;
    let operation = |graph: &Graph, id| matches!(graph.node(id).kind, NodeKind::Op(_));
    let nodes: Vec<Pair> = nodes.into_iter().filter(|p| operation(a, p.left) && operation(b, p.right)).collect();
    let replaced = |pair: &Pair| pair.changes.iter().any(|c| matches!(c, Change::Operation { .. }));
    for pair in nodes.iter().filter(|p| !replaced(p)) {
        a.results(pair.left).zip(b.results(pair.right)).for_each(|(p, q)| found.add(p, q));
    }
    let named = names(b);
    for (name, values) in names(a) {
        let (&[p], Some(&[q])) = (values.as_slice(), named.get(name).map(Vec::as_slice)) else { continue };
        if fits(a.ty(p), b.ty(q)) {
            found.add(p, q);
        }
    }
    for pair in nodes.iter().filter(|p| replaced(p)) {
        let results: Vec<(Value, Value)> = a.results(pair.left).zip(b.results(pair.right)).collect();
        let all = a.node(pair.left).results.len() == b.node(pair.right).results.len();
        // One of several results tells nothing of which one it is.
        if all && results.iter().all(|&(p, q)| fits(a.ty(p), b.ty(q))) {
            results.into_iter().for_each(|(p, q)| found.add(p, q));
        }
    }
    let mut place = vec![0; a.node_bound()];
    for (at, id) in a.topological().unwrap_or_default().into_iter().enumerate() {
        place[id.index()] = at;
    }
    found.pairs.sort_by_key(|pair| (place[pair.left.node.index()], pair.left.port));
    Ok(found.pairs)
}

/// Pairs of which no value is in two.
#[derive(Default)]
struct Found {
    pairs: Vec<ValuePair>,
    left: HashSet<Value>,
    right: HashSet<Value>,
}

impl Found {
    fn add(&mut self, left: Value, right: Value) {
        if !self.left.contains(&left) && !self.right.contains(&right) {
            self.left.insert(left);
            self.right.insert(right);
            self.pairs.push(ValuePair { left, right });
        }
    }
}

/// The results of operations by name.
fn names(graph: &Graph) -> HashMap<&str, Vec<Value>> {
    let mut names: HashMap<&str, Vec<Value>> = HashMap::new();
    for id in graph.nodes().filter(|&id| matches!(graph.node(id).kind, NodeKind::Op(_))) {
        for value in graph.results(id) {
            if let Some(name) = graph.name_of(value) {
                names.entry(name).or_default().push(value);
            }
        }
    }
    names
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
