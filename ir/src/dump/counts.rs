//! What a graph holds, in numbers.

use super::listing::Listing;
use indexmap::IndexMap;
use std::collections::HashSet;

/// Numbers about a graph.
pub(crate) struct Counts {
    pub nodes: usize,
    pub operations: usize,
    pub weights: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// Operations by name, most frequent first.
    pub by_operation: Vec<(&'static str, u64)>,
    /// Values in weights by the operation that reads them first, most first.
    pub parameters: Vec<(&'static str, u64)>,
}

impl Counts {
    pub fn of(listing: &Listing<'_>) -> Self {
        let graph = listing.graph;
        let mut by_operation: IndexMap<&'static str, u64> = IndexMap::new();
        let mut parameters: IndexMap<&'static str, u64> = IndexMap::new();
        let mut seen = HashSet::new();
        for place in 0..listing.len() {
            let crate::NodeKind::Op(op) = &graph.node(listing.node(place)).kind else { continue };
            *by_operation.entry(op.name()).or_default() += 1;
            let weights = listing.operands(place).iter().filter(|&&v| listing.weight(v).is_some());
            for &weight in weights.filter(|v| seen.insert(v.node)) {
                let values = graph.try_ty(weight).ok().and_then(|ty| ty.shape.elements()?.as_const());
                let sum = parameters.entry(op.name()).or_default();
                *sum = sum.saturating_add(values.and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
            }
        }
        Counts {
            nodes: graph.len(),
            operations: listing.len(),
            weights: graph.weights().count(),
            inputs: graph.inputs().count(),
            outputs: graph.outputs().count(),
            by_operation: sorted(by_operation),
            parameters: sorted(parameters),
        }
    }

    /// The lines of a head: numbers of nodes, operations and parameters.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{}: {}, {}, {}; {}",
            plural(self.nodes, "node"),
            plural(self.operations, "operation"),
            plural(self.weights, "weight"),
            plural(self.inputs, "input"),
            plural(self.outputs, "output"),
        )];
        if !self.by_operation.is_empty() {
            let parts: Vec<String> = self.by_operation.iter().map(|(op, n)| format!("{n} {op}")).collect();
            lines.push(format!("operations: {}", parts.join(", ")));
        }
        if !self.parameters.is_empty() {
            let total = self.parameters.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
            let parts: Vec<String> = self.parameters.iter().map(|(op, n)| format!("{op} {}", short(*n))).collect();
            lines.push(format!("parameters: {}, by first reader: {}", short(total), parts.join(", ")));
        }
        lines
    }
}

fn sorted(counts: IndexMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
    all
}

/// `1 node`, `2 nodes`.
pub(super) fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `494032768` as `494.0 M`.
fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        1_000_000_000.. => format!("{:.1} B", n as f64 / 1e9),
    }
}
