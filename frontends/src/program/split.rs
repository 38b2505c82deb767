//! Cuts what a program computes into graphs: what runs once, and what runs for each token.

use indexmap::{IndexMap, IndexSet};
use std::collections::HashMap;
use tallow_ir::{Effect, Graph, IrError, NodeId, NodeKind, POS, Value};

/// A graph, and the node of the whole that each of its nodes comes from.
pub(crate) type Part = (Graph, Vec<(usize, usize)>);

/// Both parts.
pub(crate) struct Parts {
    /// What runs once before a generation; its outputs are inputs of `main`.
    pub once: Option<Part>,
    /// The rest.
    pub main: Part,
}

/// The parts of `whole` that `outputs` need. With `tokens`, what depends neither on them, nor on the number of cached
/// tokens, nor on state, but on other inputs, runs once.
pub(crate) fn split(whole: &Graph, outputs: &IndexMap<String, Value>, tokens: Option<Value>) -> Result<Parts, IrError> {
    let order: Vec<NodeId> = whole.topological().unwrap_or_default();
    // What depends on tokens, and what on other inputs.
    let (mut stepwise, mut given) = (vec![false; whole.node_bound()], vec![false; whole.node_bound()]);
    for &id in &order {
        let at = id.index();
        match &whole.node(id).kind {
            NodeKind::Input(name) => {
                stepwise[at] = name == POS || tokens.is_some_and(|t| t.node == id);
                given[at] = !stepwise[at];
            }
            NodeKind::Weight(_) => {}
            NodeKind::Op(op) => {
                let operands = whole.operands(id);
                stepwise[at] = op.info().effect == Effect::State || operands.iter().any(|v| stepwise[v.node.index()]);
                given[at] = operands.iter().any(|v| given[v.node.index()]);
            }
        }
    }
    if tokens.is_none() {
        return Ok(Parts { once: None, main: extract(whole, &order, outputs, &IndexMap::new())? });
    }
    let needed = reached(whole, outputs.values().copied());
    let once = |v: Value| given[v.node.index()] && !stepwise[v.node.index()];
    // Values that cross: made once, read for each token, or an output themselves.
    let mut crossing: IndexSet<Value> = IndexSet::new();
    for &id in order.iter().filter(|id| needed[id.index()] && !once(Value { node: **id, port: 0 })) {
        crossing.extend(whole.operands(id).into_iter().filter(|v| once(*v)));
    }
    crossing.extend(outputs.values().copied().filter(|v| once(*v)));
    if crossing.is_empty() {
        return Ok(Parts { once: None, main: extract(whole, &order, outputs, &IndexMap::new())? });
    }
    let named: IndexMap<String, Value> =
        crossing.into_iter().enumerate().map(|(i, v)| (format!("once.{i}"), v)).collect();
    let first = extract(whole, &order, &named, &IndexMap::new())?;
    let inputs: IndexMap<Value, String> = named.into_iter().map(|(name, v)| (v, name)).collect();
    let main = extract(whole, &order, outputs, &inputs)?;
    Ok(Parts { once: Some(first), main })
}

/// The first of some values that outputs need.
pub(crate) fn reaches(whole: &Graph, outputs: &IndexMap<String, Value>, values: &[Value]) -> Option<Value> {
    if values.is_empty() {
        return None;
    }
    let needed = reached(whole, outputs.values().copied());
    values.iter().copied().find(|v| needed[v.node.index()])
}

/// The nodes that some values need.
fn reached(whole: &Graph, from: impl Iterator<Item = Value>) -> Vec<bool> {
    reached_until(whole, from, &IndexMap::new())
}

fn reached_until(whole: &Graph, from: impl Iterator<Item = Value>, stop: &IndexMap<Value, String>) -> Vec<bool> {
    let mut seen = vec![false; whole.node_bound()];
    let mut open: Vec<Value> = from.collect();
    while let Some(value) = open.pop() {
        if stop.contains_key(&value) || std::mem::replace(&mut seen[value.node.index()], true) {
            continue;
        }
        open.extend(whole.operands(value.node));
    }
    seen
}

/// The part of `whole` that `outputs` need, with some values as inputs.
fn extract(
    whole: &Graph,
    order: &[NodeId],
    outputs: &IndexMap<String, Value>,
    inputs: &IndexMap<Value, String>,
) -> Result<Part, IrError> {
    let needed = reached_until(whole, outputs.values().copied(), inputs);
    let mut graph = Graph::new();
    let mut origin = Vec::new();
    let mut made: HashMap<Value, Value> = HashMap::new();
    // Token inputs come first, as in the graphs of families.
    for (value, name) in inputs {
        let new = graph.input(name, whole.try_ty(*value)?.clone())?;
        made.insert(*value, new);
    }
    for &id in order.iter().filter(|id| needed[id.index()]) {
        let node = whole.node(id);
        let results: Vec<Value> = match &node.kind {
            NodeKind::Input(name) => vec![graph.input(name, node.results[0].clone())?],
            NodeKind::Weight(name) => vec![graph.weight(name, node.results[0].clone())?],
            NodeKind::Op(op) => {
                let operands: Vec<Value> = whole.operands(id).iter().filter_map(|v| made.get(v).copied()).collect();
                graph.op_unchecked(op.clone(), &operands, node.results.clone())
            }
        };
        for (old, new) in whole.results(id).zip(results) {
            origin.push((new.node.index(), old.node.index()));
            if let Some(name) = whole.name_of(old) {
                graph.name(new, name);
            }
            // A value that is an input here keeps that meaning.
            made.entry(old).or_insert(new);
        }
    }
    for (name, value) in outputs {
        if let Some(&value) = made.get(value) {
            graph.output(name, value)?;
        }
    }
    Ok((graph, origin))
}
