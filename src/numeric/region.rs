//! What lies between a value and the values before it that are compared: what its error may come from.

use std::collections::HashSet;
use tallow_ir::{Graph, NodeId, NodeKind, Value};

/// The operations and weights that a value is made by, from values that are compared on.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    /// The operations, the value's own last.
    pub operations: Vec<NodeId>,
    /// The weights by name, in order of the walk.
    pub weights: Vec<String>,
}

/// At most so many operations are looked at: more tell a reader nothing.
const MOST: usize = 256;

/// The region of `value` where `compared` are the values whose errors are charged to others.
pub(super) fn region(graph: &Graph, value: Value, compared: &HashSet<Value>) -> Region {
    let mut found = Region::default();
    let mut seen = HashSet::from([value.node]);
    let mut open = vec![value.node];
    while let Some(id) = open.pop() {
        match &graph.node(id).kind {
            NodeKind::Input(_) => {}
            NodeKind::Weight(name) => found.weights.push(name.clone()),
            NodeKind::Op(_) => {
                found.operations.push(id);
                if found.operations.len() >= MOST {
                    break;
                }
                let operands = graph.operands(id).into_iter().rev().filter(|v| !compared.contains(v));
                open.extend(operands.map(|v| v.node).filter(|&node| seen.insert(node)));
            }
        }
    }
    found.operations.reverse();
    found
}
