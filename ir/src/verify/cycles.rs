//! Rule 1: where a graph has cycles.

use super::{Fault, Part, Rule, kind_name};
use crate::{Graph, NodeId};

/// Reports one cycle for each set of nodes that depend on each other.
pub(super) fn cycles(graph: &Graph, faults: &mut Vec<(NodeId, Fault)>) {
    if graph.sorted_part().len() == graph.len() {
        return;
    }
    // The component of each node, counted from 1.
    let mut component = vec![0u32; graph.node_bound()];
    let components = graph.components();
    for (number, members) in (1u32..).zip(&components) {
        for id in members {
            component[id.index()] = number;
        }
    }
    let mut step_of = vec![u32::MAX; graph.node_bound()];
    for members in &components {
        let Some(&first) = members.iter().min() else {
            continue;
        };
        // Inside a component every node reads a member of it, so walking up operands comes round;
        // a single node does so only where it reads itself.
        let mut path: Vec<(NodeId, usize)> = Vec::new();
        let mut at = first;
        let from = loop {
            let seen = step_of[at.index()];
            if seen != u32::MAX {
                break Some(seen as usize);
            }
            step_of[at.index()] = path.len() as u32;
            let inside = graph
                .operands(at)
                .into_iter()
                .enumerate()
                .find(|(_, v)| component[v.node.index()] == component[at.index()]);
            match inside {
                Some((number, value)) => {
                    path.push((at, number));
                    at = value.node;
                }
                None => break None,
            }
        };
        let Some(cycle) = from.and_then(|from| path.get(from..)) else {
            continue;
        };
        let Some(&(start, operand)) = cycle.first() else {
            continue;
        };
        const SHOWN: usize = 8;
        let mut steps: Vec<String> =
            cycle.iter().take(SHOWN).map(|(id, _)| format!("node {} {}", id.index(), kind_name(graph, *id))).collect();
        if cycle.len() > SHOWN {
            steps.push(format!("{} more", cycle.len() - SHOWN));
        }
        steps.push(format!("node {}", start.index()));
        faults.push((
            start,
            Fault {
                rule: Rule::Acyclic,
                message: format!("depends on its own result (each reads the next: {})", steps.join(", ")),
                part: Part::Operand(operand),
            },
        ));
    }
}
