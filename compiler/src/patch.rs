//! Patches: what a pass proposes, and the one function that applies it.

use crate::body::{Body, Gone};
use tallow_ir::{Effect, NodeId, Op, RuleError, TensorType, Value};
use thiserror::Error;

/// A value that a patch reads or puts in place of another: one of the body, or one that the patch makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tap {
    /// A value that is there.
    Old(Value),
    /// A result of a new node: number of the node in the patch, and port.
    New(usize, u32),
}

impl From<Value> for Tap {
    fn from(value: Value) -> Self {
        Tap::Old(value)
    }
}

#[derive(Clone, Debug)]
struct New {
    op: Op,
    operands: Vec<Tap>,
    types: Vec<TensorType>,
}

/// A change of a graph: new nodes over values that are there, the values that they replace, and the nodes with state
/// whose work they take over.
#[derive(Clone, Debug)]
pub struct Patch {
    /// What it does, for people: `Add of 0`, `q_proj, k_proj and v_proj`.
    pub label: String,
    new: Vec<New>,
    replaces: Vec<(Value, Tap)>,
    supersedes: Vec<NodeId>,
    removes: Option<NodeId>,
}

impl Patch {
    /// An empty patch.
    pub fn new(label: impl Into<String>) -> Self {
        Patch { label: label.into(), new: Vec::new(), replaces: Vec::new(), supersedes: Vec::new(), removes: None }
    }

    /// Puts `by` in the place of `old`.
    pub fn of(label: impl Into<String>, old: Value, by: Value) -> Self {
        let mut patch = Patch::new(label);
        patch.replace(old, by);
        patch
    }

    /// Removes a node that nothing needs.
    pub fn removal(label: impl Into<String>, node: NodeId) -> Self {
        Patch { removes: Some(node), ..Patch::new(label) }
    }

    /// The type of a tap.
    pub fn ty<'a>(&'a self, body: &'a Body, tap: Tap) -> &'a TensorType {
        match tap {
            Tap::Old(value) => body.ty(value),
            Tap::New(node, port) => &self.new[node].types[port as usize],
        }
    }

    /// Adds an operation; its results in order.
    ///
    /// # Errors
    /// Operands that its rule refuses.
    pub fn ops(&mut self, body: &Body, op: Op, operands: &[Tap]) -> Result<Vec<Tap>, RuleError> {
        let types: Vec<TensorType> = operands.iter().map(|&t| self.ty(body, t).clone()).collect();
        let types = op.infer(&types)?;
        let node = self.new.len();
        let taps = (0..types.len() as u32).map(|port| Tap::New(node, port)).collect();
        self.new.push(New { op, operands: operands.to_vec(), types });
        Ok(taps)
    }

    /// Adds an operation with one result.
    ///
    /// # Errors
    /// As [`Patch::ops`]; another number of results.
    pub fn op(&mut self, body: &Body, op: Op, operands: &[Tap]) -> Result<Tap, RuleError> {
        match self.ops(body, op, operands)?.as_slice() {
            [one] => Ok(*one),
            many => Err(RuleError::new(format!("has {} results where one is wanted", many.len()))),
        }
    }

    /// Puts a value in the place of another, which must have the same type.
    pub fn replace(&mut self, old: Value, by: impl Into<Tap>) {
        self.replaces.push((old, by.into()));
    }

    /// Takes over the work of a node that keeps state: it goes, and the one new node with state keeps its cache.
    /// Whatever reads it must go too.
    pub fn supersede(&mut self, node: NodeId) {
        self.supersedes.push(node);
    }
}

/// Why a patch cannot be applied: a fault of the pass that proposed it, and told as a missed candidate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// Another type.
    #[error("`{place}` is {old}, and what would take its place {new}")]
    Type {
        /// What is replaced.
        place: String,
        /// Its type.
        old: TensorType,
        /// That of the new value.
        new: TensorType,
    },
    /// State that would be lost or kept twice.
    #[error("the state of `{0}` would not be kept exactly once")]
    State(String),
}

/// What applying a patch has changed.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The new nodes.
    pub added: Vec<NodeId>,
    /// Nodes whose operands or readers changed, perhaps with repetitions.
    pub touched: Vec<NodeId>,
}

/// Checks a patch and applies it: all of it or nothing.
///
/// # Errors
/// Replaced values of another type, and state that is not taken over by exactly one node.
pub fn apply(body: &mut Body, patch: &Patch) -> Result<Applied, PatchError> {
    for &(old, by) in &patch.replaces {
        let (was, new) = (body.ty(old), patch.ty(body, by));
        if was != new {
            return Err(PatchError::Type { place: body.place(old.node), old: was.clone(), new: new.clone() });
        }
    }
    let stateful = patch.new.iter().filter(|n| n.op.info().effect == Effect::State).count();
    let kept_once = stateful == patch.supersedes.len() && stateful <= 1;
    if !kept_once || !patch.supersedes.iter().all(|&id| goes(body, patch, id)) {
        let place = patch.supersedes.first().map_or_else(|| patch.label.clone(), |&id| body.place(id));
        return Err(PatchError::State(place));
    }
    let rank = patch.replaces.iter().map(|(old, _)| body.entry(old.node).rank).min().unwrap_or(0);
    let cache = patch.supersedes.first().and_then(|&id| body.entry(id).cache);

    let mut done = Applied::default();
    for new in &patch.new {
        let operands = new.operands.iter().map(|&tap| place_of(&done.added, tap)).collect();
        done.added.push(body.add(new.op.clone(), new.types.clone(), operands, rank));
    }
    for &(old, by) in &patch.replaces {
        let by = place_of(&done.added, by);
        done.touched.extend(body.redirect(old, by));
        done.touched.push(by.node);
    }
    let mut gone = Gone::default();
    for (old, _) in &patch.replaces {
        if body.has(old.node) && body.is_dead(old.node) {
            body.remove(old.node, &mut gone);
        }
    }
    patch.supersedes.iter().for_each(|&id| body.remove(id, &mut gone));
    if let Some(id) = patch.removes.filter(|&id| body.has(id) && body.is_dead(id)) {
        body.remove(id, &mut gone);
    }
    let mut origin = gone.origin;
    origin.sort_unstable();
    origin.dedup();
    for (&id, new) in done.added.iter().zip(&patch.new) {
        if !body.has(id) {
            // All that read it went as well: it was dead code.
            continue;
        }
        let cache = cache.filter(|_| new.op.info().effect == Effect::State);
        body.stands_for(id, origin.clone(), cache);
        done.touched.extend(body.operands(id).iter().map(|v| v.node));
    }
    done.touched.extend(gone.kept);
    done.added.retain(|&id| body.has(id));
    done.touched.retain(|&id| body.has(id));
    Ok(done)
}

/// Whether everything that reads a node goes once the patch has replaced what it replaces.
fn goes(body: &Body, patch: &Patch, id: NodeId) -> bool {
    let replaced = |value: Value| patch.replaces.iter().any(|(old, _)| *old == value);
    body.results(id).all(|value| {
        let readers = body.readers(value);
        let all = |reader: NodeId| body.results(reader).all(|v| replaced(v) || body.uses(v) == 0);
        replaced(value) || (readers.len() == body.uses(value) && readers.iter().all(|&(reader, _)| all(reader)))
    })
}

fn place_of(added: &[NodeId], tap: Tap) -> Value {
    match tap {
        Tap::Old(value) => value,
        Tap::New(node, port) => Value { node: added[node], port },
    }
}
