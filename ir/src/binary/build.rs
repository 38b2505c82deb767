//! From a graph to the binary form.

use super::{HintForm, Input, Interface, RawGraph, RawNode};
use crate::text::Labels;
use crate::{Graph, IrError, NodeKind, Op, RuleError, Value};
use std::collections::HashSet;

impl RawGraph {
    /// The full form of a graph, with ids counted from 0 in topological order.
    ///
    /// Names: inputs, weights and outputs keep theirs, which are the interface. Other values keep
    /// the name they have, made unique with `.1`, `.2` …; those without one become `%ID.PORT`.
    /// A value that is an output under two names, or both an input or a weight and an output of
    /// another name, gets its further names through `Clamp` without bounds, which changes nothing.
    ///
    /// What the form cannot hold: symbols of dimensions (all become -1; [`RawGraph::to_graph`] says
    /// which come back), and inputs' dimensions that are sums or products. Weights are names: those
    /// that nothing reads disappear.
    ///
    /// # Errors
    /// A cycle; an output with the name of another value's input or weight, since the form knows
    /// one name space.
    pub fn from_graph(graph: &Graph) -> Result<RawGraph, IrError> {
        let labels = Labels::new(graph);
        if labels.is_cyclic() {
            return Err(refuse("a graph with a cycle has no binary form; the verifier shows the cycle"));
        }
        let named = graph.inputs().chain(graph.weights()).chain(graph.outputs());
        if named.into_iter().any(|(name, _)| name.is_empty()) {
            return Err(refuse("an input, a weight or an output without a name has no binary form; name it"));
        }
        let names = Names::new(graph, &labels)?;
        let mut nodes = Vec::with_capacity(graph.len());
        for &node in labels.order() {
            let NodeKind::Op(op) = &graph.node(node).kind else {
                continue;
            };
            nodes.push(RawNode {
                id: nodes.len() as u32,
                op: op.clone(),
                inputs: graph.operands(node).into_iter().map(|v| names.get(v).to_owned()).collect(),
                outputs: graph.results(node).map(|v| names.get(v).to_owned()).collect(),
                hint: graph.hint(node),
            });
        }
        for (output, value) in graph.outputs() {
            if names.get(value) != output {
                nodes.push(RawNode {
                    id: nodes.len() as u32,
                    op: Op::Clamp { min: None, max: None },
                    inputs: vec![names.get(value).to_owned()],
                    outputs: vec![output.to_owned()],
                    hint: None,
                });
            }
        }
        let inputs = graph
            .inputs()
            .map(|(name, value)| {
                let ty = graph.ty(value);
                Input {
                    name: name.to_owned(),
                    dims: ty.shape.dims().iter().map(|d| d.as_const().unwrap_or(-1)).collect(),
                    dtype: ty.dtype,
                    place: None,
                }
            })
            .collect();
        Ok(RawGraph {
            nodes,
            interface: Some(Interface { inputs, outputs: graph.outputs().map(|(name, _)| name.to_owned()).collect() }),
            hints: HintForm::Flagged,
        })
    }
}

fn refuse(text: impl Into<String>) -> IrError {
    IrError::Rule { op: "graph", name: None, source: RuleError::new(text) }
}

/// The name of each value.
struct Names {
    /// Where the names of a node begin, by node number.
    start: Vec<u32>,
    names: Vec<String>,
}

impl Names {
    fn new(graph: &Graph, labels: &Labels) -> Result<Self, IrError> {
        // First what is fixed: the interface.
        let mut start = vec![0; graph.node_bound()];
        let mut names: Vec<String> = Vec::new();
        for &id in labels.order() {
            start[id.index()] = names.len() as u32;
            for _ in graph.results(id) {
                names.push(match &graph.node(id).kind {
                    NodeKind::Input(name) | NodeKind::Weight(name) => name.clone(),
                    NodeKind::Op(_) => String::new(),
                });
            }
        }
        let mut taken = Taken { interface: HashSet::new(), others: None };
        taken.interface.extend(graph.inputs().chain(graph.weights()).map(|(name, _)| name).filter(|n| !n.is_empty()));
        for (output, value) in graph.outputs() {
            let slot = start[value.node.index()] as usize + value.port as usize;
            let Some(slot) = names.get_mut(slot) else {
                return Err(IrError::NoValue { node: value.node.index(), port: value.port });
            };
            if slot.is_empty() {
                if !taken.interface.insert(output) {
                    return Err(clash(output));
                }
                slot.push_str(output);
            } else if slot != output && !taken.interface.insert(output) {
                return Err(clash(output));
            }
        }
        // Then the others, by the unique names of the text form where those are free.
        let mut id_of = 0u32;
        for &id in labels.order() {
            if !matches!(graph.node(id).kind, NodeKind::Op(_)) {
                continue;
            }
            for value in graph.results(id) {
                let slot = start[id.index()] as usize + value.port as usize;
                if names.get(slot).is_none_or(|name| !name.is_empty()) {
                    continue;
                }
                let (wanted, clear) = match labels.unique_name(value) {
                    // The injected input keeps its name to itself.
                    Some(name) if !name.is_empty() && name != crate::POS => (name.to_owned(), !name.starts_with('%')),
                    _ => (format!("%{id_of}.{}", value.port), true),
                };
                names[slot] = taken.free(wanted, clear, &names);
            }
            id_of += 1;
        }
        Ok(Names { start, names })
    }

    fn get(&self, value: Value) -> &str {
        let start = self.start.get(value.node.index()).copied().unwrap_or(0);
        self.names.get(start as usize + value.port as usize).map_or("", String::as_str)
    }
}

fn clash(output: &str) -> IrError {
    IrError::Name { name: output.to_owned(), taken: "an input or a weight, and the output is another value".into() }
}

/// Names that are given away. Those of the text form are unique, and so are those of numbers: names
/// can clash only with the interface, with one that was changed for that reason, or where one of the
/// text form begins as those of numbers do. Until that happens only the interface is kept.
struct Taken<'g> {
    interface: HashSet<&'g str>,
    /// All names beside the interface, once they are needed.
    others: Option<HashSet<String>>,
}

impl Taken<'_> {
    /// `wanted`, or `wanted_1`, `wanted_2` … where it is taken; `clear` where it is told from names of
    /// the other kind by how it begins; `names` are those given so far.
    fn free(&mut self, wanted: String, clear: bool, names: &[String]) -> String {
        if clear && self.others.is_none() && !self.interface.contains(wanted.as_str()) {
            return wanted;
        }
        let others = self.others.get_or_insert_with(|| names.iter().filter(|n| !n.is_empty()).cloned().collect());
        let mut name = wanted.clone();
        let mut n = 0;
        while self.interface.contains(name.as_str()) || others.contains(&name) {
            n += 1;
            name = format!("{wanted}_{n}");
        }
        others.insert(name.clone());
        name
    }
}
