//! Which values of two graphs are compared.

use super::Side;
use crate::{Error, Result};
use std::collections::{HashMap, HashSet};
use tallow_ir::canonical::canonical;
use tallow_ir::{Dim, Graph, NodeId, NodeKind, TensorType, Value};

/// A value of the left graph and the one of the right graph that stands for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValuePair {
    /// The left graph's.
    pub left: Value,
    /// The right graph's.
    pub right: Value,
}

/// The values that two graphs have in common: those that structure pairs, and of the others those of equal name and
/// shape, so that graphs of different stages meet where both still have a value. In topological order of the left.
///
/// # Errors
/// Graphs that cannot be walked.
pub fn pairs(left: &Side, right: &Side) -> Result<Vec<ValuePair>> {
    let (a, b) = (left.graph(), right.graph());
    let mut taken = (HashSet::new(), HashSet::new());
    let mut found: Vec<ValuePair> = Vec::new();
    for (x, y) in structural(left, right)? {
        let operations = [a.node(x), b.node(y)].iter().all(|n| matches!(n.kind, NodeKind::Op(_)));
        for (p, q) in a.results(x).zip(b.results(y)).filter(|_| operations) {
            if !taken.0.contains(&p) && !taken.1.contains(&q) {
                taken.0.insert(p);
                taken.1.insert(q);
                found.push(ValuePair { left: p, right: q });
            }
        }
    }
    let named = names(b);
    for (name, values) in names(a) {
        let (&[p], Some(&[q])) = (values.as_slice(), named.get(name).map(Vec::as_slice)) else { continue };
        if !taken.0.contains(&p) && !taken.1.contains(&q) && fits(a.ty(p), b.ty(q)) {
            taken.0.insert(p);
            taken.1.insert(q);
            found.push(ValuePair { left: p, right: q });
        }
    }
    let order = a.topological().unwrap_or_default();
    let mut place = vec![0; a.node_bound()];
    order.iter().enumerate().for_each(|(at, id)| place[id.index()] = at);
    found.sort_by_key(|pair| (place[pair.left.node.index()], pair.left.port));
    Ok(found)
}

/// Nodes that structure pairs: those of graphs that are one computation.
fn structural(left: &Side, right: &Side) -> Result<Vec<(NodeId, NodeId)>> {
    let form = |side: &Side| {
        canonical(side.graph()).map_err(|e| Error::Graph { file: side.label.clone(), source: Box::new(e) })
    };
    let (a, b) = (form(left)?, form(right)?);
    if !tallow_ir::graphs_equal(&a.graph, &b.graph) {
        return Ok(Vec::new());
    }
    Ok(a.origin.into_iter().zip(b.origin).collect())
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
