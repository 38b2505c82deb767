//! Common subexpressions: an operation on the same operands is computed once.

use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::Context;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use tallow_ir::{Effect, NodeId, Op, Value};

/// A patch for each operation that an earlier one computes as well. Only pure operations: random numbers differ, and
/// state and the host are asked as often as it is written.
pub(in crate::passes) fn find(body: &Body, _: &mut Context<'_>) -> Vec<(NodeId, Patch)> {
    let mut patches = Vec::new();
    // For each node the first one that computes the same.
    let mut first: Vec<Option<NodeId>> = vec![None; body.bound()];
    let mut known: HashMap<u64, Vec<NodeId>> = HashMap::new();
    let resolve = |first: &[Option<NodeId>], value: Value| match first[value.node.index()] {
        Some(node) => Value { node, port: value.port },
        None => value,
    };
    let operands = |first: &[Option<NodeId>], id: NodeId| -> Vec<Value> {
        let mut operands: Vec<Value> = body.operands(id).iter().map(|&v| resolve(first, v)).collect();
        if body.op(id).is_some_and(commutes) {
            operands.sort_unstable();
        }
        operands
    };
    for id in body.topological() {
        let Some(op) = body.op(id).filter(|op| op.info().effect == Effect::Pure) else { continue };
        let own = operands(&first, id);
        let mut hasher = DefaultHasher::new();
        op.hash(&mut hasher);
        own.hash(&mut hasher);
        let class = known.entry(hasher.finish()).or_default();
        let same = |&other: &NodeId| {
            body.op(other) == Some(op) && body.types(other) == body.types(id) && operands(&first, other) == own
        };
        match class.iter().copied().find(same) {
            Some(earlier) => {
                let mut patch = Patch::new(format!("{} as `{}`", op.name(), body.place(earlier)));
                body.results(id).zip(body.results(earlier)).for_each(|(old, new)| patch.replace(old, new));
                first[id.index()] = Some(earlier);
                patches.push((id, patch));
            }
            None => class.push(id),
        }
    }
    patches
}

/// Whether the order of the two operands is of no matter, to the bit.
fn commutes(op: &Op) -> bool {
    matches!(op, Op::Add | Op::Mul)
}
