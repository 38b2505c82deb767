//! Dead code: what no output, no state and no call of the host needs.

use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::Context;
use tallow_ir::{NodeId, NodeKind};

/// A patch for each operation that nothing reads, which takes with it what it alone needed. Inputs stay: a caller may
/// always give them.
pub(in crate::passes) fn find(body: &Body, _: &mut Context<'_>) -> Vec<(NodeId, Patch)> {
    let dead = |id: &NodeId| body.is_dead(*id);
    body.ids().filter(dead).map(|id| (id, Patch::removal(label(body, id), id))).collect()
}

fn label(body: &Body, id: NodeId) -> String {
    match body.kind(id) {
        NodeKind::Op(op) => format!("{} that nothing reads", op.name()),
        NodeKind::Weight(_) | NodeKind::Input(_) => "weight that nothing reads".to_owned(),
    }
}
