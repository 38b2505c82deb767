//! The plan: what an executor walks, step by step, over numbered buffers.

use std::collections::HashMap;
use std::fmt::Write as _;
use tallow_ir::verify::Verified;
use tallow_ir::{Effect, NodeId, NodeKind, Op, POS, TensorType, Value};
use thiserror::Error;

/// Number of a buffer; each value has its own, and it is empty before its step and after its last
/// reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buffer(pub u32);

/// An input that the caller, or for `pos` the session, fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInput {
    /// Name.
    pub name: String,
    /// Type; symbols are bound by what the caller gives.
    pub ty: TensorType,
    /// Where it goes.
    pub buffer: Buffer,
}

/// A weight that stays in its buffer for as long as the plan is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanWeight {
    /// Name in the tensor index.
    pub name: String,
    /// Type, with the encoding as the element type.
    pub ty: TensorType,
    /// Where it stays.
    pub buffer: Buffer,
}

/// One operation over buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub op: Op,
    /// The node of the lowered graph that it comes from.
    pub node: NodeId,
    /// Where it comes from, for messages: the name of its first result.
    pub name: String,
    /// Operands in order.
    pub operands: Vec<Buffer>,
    /// Results in order.
    pub results: Vec<Buffer>,
    /// Types of the results.
    pub types: Vec<TensorType>,
    /// Buffers that nothing after this step reads.
    pub frees: Vec<Buffer>,
    /// Which of the session's caches a stateful step uses.
    pub cache: Option<u32>,
}

/// A flat list of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Inputs in order.
    pub inputs: Vec<PlanInput>,
    /// Weights in order of first use.
    pub weights: Vec<PlanWeight>,
    /// Steps that read weights alone: run once, their results stay.
    pub prelude: Vec<Step>,
    /// Steps of every call.
    pub steps: Vec<Step>,
    /// Outputs in order.
    pub outputs: Vec<(String, Buffer)>,
    /// Number of buffers.
    pub buffers: u32,
    /// Number of caches that a session keeps for this plan.
    pub caches: u32,
}

impl Plan {
    /// The inputs that a caller gives, with their types: `x: f32[S, 4], y: f32[]`.
    pub fn signature(&self) -> String {
        let given = self.inputs.iter().filter(|i| i.name != POS);
        given.map(|i| format!("{}: {}", i.name, i.ty)).collect::<Vec<_>>().join(", ")
    }

    /// The type of what a buffer holds.
    pub fn type_of(&self, buffer: Buffer) -> Option<&TensorType> {
        let steps = self.prelude.iter().chain(&self.steps);
        let made = steps.flat_map(|s| s.results.iter().zip(&s.types));
        let inputs = self.inputs.iter().map(|i| (&i.buffer, &i.ty));
        let weights = self.weights.iter().map(|w| (&w.buffer, &w.ty));
        inputs.chain(weights).chain(made).find(|(b, _)| **b == buffer).map(|(_, ty)| ty)
    }
}

/// Why a graph has no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// More values than numbers for them.
    #[error("the graph has more than {limit} values; split it")]
    TooLarge {
        /// The limit.
        limit: u32,
    },
    /// A verified graph without an order: a fault of this crate.
    #[error("the verified graph has a cycle; please report this")]
    Cycle,
}

/// Lowers a verified graph, its caches numbered by the ids of the nodes that keep them.
pub fn lower(verified: &Verified) -> Result<Plan, PlanError> {
    let graph = verified.graph();
    let stateful = |id: &NodeId| matches!(&graph.node(*id).kind, NodeKind::Op(op) if op.info().effect == Effect::State);
    let caches: HashMap<NodeId, u32> = graph.nodes().filter(stateful).zip(0..).collect();
    lower_with(verified, &caches)
}

/// Lowers a verified graph whose nodes with state keep the caches of these numbers: the same in all variants of a graph
/// (all rows, last row), so that their plans share a session's caches. Steps stand in topological order; what no output,
/// no state and no call of the host needs is left out.
pub fn lower_with(verified: &Verified, caches: &HashMap<NodeId, u32>) -> Result<Plan, PlanError> {
    let graph = verified.graph();
    let order = graph.topological().ok_or(PlanError::Cycle)?;
    let needed = needed(verified, &order);

    let mut plan = Plan { caches: caches.len() as u32, ..Plan::default() };
    let mut buffers: HashMap<Value, Buffer> = HashMap::new();
    let mut constant: HashMap<NodeId, bool> = HashMap::new();
    for &id in order.iter().filter(|id| needed.contains(id)) {
        let results: Vec<Buffer> = graph
            .results(id)
            .map(|value| {
                let buffer = Buffer(plan.buffers);
                plan.buffers = plan.buffers.checked_add(1).ok_or(PlanError::TooLarge { limit: u32::MAX })?;
                buffers.insert(value, buffer);
                Ok(buffer)
            })
            .collect::<Result<_, PlanError>>()?;
        let node = graph.node(id);
        match &node.kind {
            NodeKind::Input(name) => {
                constant.insert(id, false);
                plan.inputs.push(PlanInput { name: name.clone(), ty: node.results[0].clone(), buffer: results[0] });
            }
            NodeKind::Weight(name) => {
                constant.insert(id, true);
                plan.weights.push(PlanWeight { name: name.clone(), ty: node.results[0].clone(), buffer: results[0] });
            }
            NodeKind::Op(op) => {
                let operands = graph.operands(id);
                let effect = op.info().effect;
                let fixed = effect == Effect::Pure && operands.iter().all(|v| constant[&v.node]);
                constant.insert(id, fixed);
                let name = graph
                    .name_of(Value { node: id, port: 0 })
                    .map_or_else(|| format!("{}#{}", op.name(), id.index()), str::to_owned);
                let step = Step {
                    op: op.clone(),
                    node: id,
                    name,
                    operands: operands.iter().map(|v| buffers[v]).collect(),
                    results,
                    types: node.results.clone(),
                    frees: Vec::new(),
                    cache: caches.get(&id).copied(),
                };
                if fixed { plan.prelude.push(step) } else { plan.steps.push(step) }
            }
        }
    }
    plan.outputs = graph.outputs().map(|(name, v)| (name.to_owned(), buffers[&v])).collect();
    free_after_last_use(&mut plan);
    Ok(plan)
}

/// Nodes that an output, a state or a call of the host needs, and every input, so that a caller may always give it.
fn needed(verified: &Verified, order: &[NodeId]) -> std::collections::HashSet<NodeId> {
    let graph = verified.graph();
    let mut needed: std::collections::HashSet<NodeId> = graph.outputs().map(|(_, v)| v.node).collect();
    needed.extend(graph.inputs().map(|(_, v)| v.node));
    for &id in order.iter().rev() {
        let acts = match &graph.node(id).kind {
            NodeKind::Op(op) => matches!(op.info().effect, Effect::State | Effect::Host),
            NodeKind::Input(_) | NodeKind::Weight(_) => false,
        };
        if acts {
            needed.insert(id);
        }
        if needed.contains(&id) {
            needed.extend(graph.operands(id).iter().map(|v| v.node));
        }
    }
    needed
}

/// Fills `frees` of each step: weights, results of the prelude and outputs stay.
fn free_after_last_use(plan: &mut Plan) {
    let mut stays = vec![false; plan.buffers as usize];
    let weights = plan.weights.iter().map(|w| w.buffer);
    let prelude = plan.prelude.iter().flat_map(|s| s.results.iter().copied());
    let outputs = plan.outputs.iter().map(|(_, b)| *b);
    for buffer in weights.chain(prelude).chain(outputs) {
        stays[buffer.0 as usize] = true;
    }
    for step in plan.steps.iter_mut().rev() {
        for &buffer in step.operands.iter().chain(&step.results) {
            if !std::mem::replace(&mut stays[buffer.0 as usize], true) {
                step.frees.push(buffer);
            }
        }
    }
}

/// Prints one step a line: `%7 = RmsNorm(%5, %6) { eps = 1e-6 }  # layer0.norm, frees %5`.
impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for i in &self.inputs {
            writeln!(f, "%{} = input {}: {}", i.buffer.0, i.name, i.ty)?;
        }
        for w in &self.weights {
            writeln!(f, "%{} = weight {:?}: {}", w.buffer.0, w.name, w.ty)?;
        }
        for (title, steps) in [("once", &self.prelude), ("every call", &self.steps)] {
            writeln!(f, "{title}:")?;
            for step in steps {
                let list = |b: &[Buffer]| b.iter().map(|b| format!("%{}", b.0)).collect::<Vec<_>>().join(", ");
                let mut line = format!("  {} = {}({})", list(&step.results), step.op.name(), list(&step.operands));
                let attributes = step.op.attributes();
                if !attributes.is_empty() {
                    let _ = write!(line, " {{ {attributes} }}");
                }
                let _ = write!(line, "  # {}", step.name);
                if !step.frees.is_empty() {
                    let _ = write!(line, ", frees {}", list(&step.frees));
                }
                writeln!(f, "{line}")?;
            }
        }
        for (name, buffer) in &self.outputs {
            writeln!(f, "output {name} = %{}", buffer.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::{Dim, Graph, Shape};

    #[test]
    fn weights_only_steps_run_once_and_buffers_are_freed_after_the_last_reader() {
        let mut g = Graph::new();
        let rows = TensorType::f32(Shape::new([Dim::symbol("S"), 4.into()]));
        let x = g.input("x", rows).unwrap();
        let w = g.weight("w", TensorType::f32(Shape::fixed(&[4]))).unwrap();
        let gain = g.op(Op::AddScalar { value: 1.0.into() }, &[w]).unwrap();
        let n = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[x, gain]).unwrap();
        let dead = g.op(Op::Exp, &[n]).unwrap();
        g.name(dead, "dead");
        let y = g.op(Op::Add, &[n, x]).unwrap();
        g.output("y", y).unwrap();
        let plan = lower(&tallow_ir::verify::verify(g).unwrap()).unwrap();
        assert_eq!(plan.prelude.len(), 1);
        assert_eq!(plan.steps.len(), 2);
        assert_eq!(plan.steps[0].frees, []);
        assert_eq!(plan.steps[1].frees.len(), 2);
        assert!(plan.to_string().contains("once:\n  %2 = AddScalar(%1) { value = 1 }"));
        assert!(!plan.to_string().contains("dead"));
    }
}
