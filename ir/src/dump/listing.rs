//! The operations of a graph in printed order, with what folding asks about each of them.

use super::names::skeleton;
use crate::text::Labels;
use crate::{Graph, NodeId, NodeKind, Op, Shape, TensorType, Value};
use std::collections::HashMap;

/// The place of an operation that is not in the list.
const NOWHERE: u32 = u32::MAX;

/// The operations by place: 0, 1, 2 … in the order of the text form.
pub(crate) struct Listing<'g> {
    pub graph: &'g Graph,
    pub labels: Labels,
    ops: Vec<NodeId>,
    /// Place by node number.
    places: Vec<u32>,
    /// Operands of all operations one after another, and where those of each begin.
    operands: Vec<Value>,
    starts: Vec<u32>,
    /// What each operation looks like: equal numbers for operations that differ at most in which values
    /// they read, in the numbers in names, and in the encodings of weights.
    looks: Vec<u32>,
    /// The last place that reads a result of the operation; its own where none does.
    last_readers: Vec<u32>,
}

/// What an operation looks like.
#[derive(PartialEq, Eq, Hash)]
struct Look<'g> {
    op: &'g Op,
    results: &'g [TensorType],
    hint: Option<u8>,
    operands: Vec<OperandLook<'g>>,
}

/// What an operand looks like.
#[derive(PartialEq, Eq, Hash)]
enum OperandLook<'g> {
    /// A weight, by its name without numbers and its shape. Encodings are left out: what comes of them is
    /// in the types of the results.
    Weight(u32, Option<&'g Shape>),
    /// Any other value, by its type.
    Value(Option<&'g TensorType>),
}

impl<'g> Listing<'g> {
    /// Linear in nodes and edges, but for a sort of the operands of each node.
    pub fn new(graph: &'g Graph) -> Self {
        let labels = Labels::new(graph);
        let ops: Vec<NodeId> =
            labels.order().iter().copied().filter(|&id| matches!(graph.node(id).kind, NodeKind::Op(_))).collect();
        let mut places = vec![NOWHERE; graph.node_bound()];
        for (place, id) in (0u32..).zip(&ops) {
            places[id.index()] = place;
        }
        let mut operands = Vec::new();
        let mut starts = Vec::with_capacity(ops.len() + 1);
        let mut last_readers: Vec<u32> = (0..ops.len() as u32).collect();
        for (place, &id) in (0u32..).zip(&ops) {
            starts.push(operands.len() as u32);
            for value in graph.operands(id) {
                if let Some(last) = last_readers.get_mut(places[value.node.index()] as usize) {
                    *last = (*last).max(place);
                }
                operands.push(value);
            }
        }
        starts.push(operands.len() as u32);
        let mut listing = Listing { graph, labels, ops, places, operands, starts, looks: Vec::new(), last_readers };
        listing.looks = listing.look_at_all();
        listing
    }

    fn look_at_all(&self) -> Vec<u32> {
        let graph = self.graph;
        let mut skeletons: HashMap<String, u32> = HashMap::new();
        let mut weights: HashMap<NodeId, u32> = HashMap::new();
        for (name, value) in graph.weights() {
            let next = skeletons.len() as u32;
            weights.insert(value.node, *skeletons.entry(skeleton(name)).or_insert(next));
        }
        let mut seen: HashMap<Look<'g>, u32> = HashMap::new();
        let mut looks = Vec::with_capacity(self.ops.len());
        for place in 0..self.ops.len() {
            let id = self.ops[place];
            let node = graph.node(id);
            let NodeKind::Op(op) = &node.kind else { continue };
            let operand = |v: &Value| {
                let ty = graph.try_ty(*v).ok();
                match weights.get(&v.node) {
                    Some(&skeleton) => OperandLook::Weight(skeleton, ty.map(|ty| &ty.shape)),
                    None => OperandLook::Value(ty),
                }
            };
            let operands = self.operands(place).iter().map(operand).collect();
            let next = seen.len() as u32;
            let look = Look { op, results: &node.results, hint: graph.hint(id), operands };
            looks.push(*seen.entry(look).or_insert(next));
        }
        looks
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// The operation at a place.
    pub fn node(&self, place: usize) -> NodeId {
        self.ops[place]
    }

    /// What the operation at a place reads.
    pub fn operands(&self, place: usize) -> &[Value] {
        &self.operands[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// Number of results of the operation at a place.
    pub fn results(&self, place: usize) -> usize {
        self.graph.node(self.ops[place]).results.len()
    }

    /// A result of the operation at a place.
    pub fn result(&self, place: usize, port: usize) -> Value {
        Value { node: self.ops[place], port: port as u32 }
    }

    /// The place of the operation that gives a value; `None` for inputs and weights.
    pub fn place(&self, value: Value) -> Option<usize> {
        let place = *self.places.get(value.node.index())?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// What the operations look like, by place.
    pub fn looks(&self) -> &[u32] {
        &self.looks
    }

    /// The last place that reads the operation at `place`, or its own.
    pub fn last_reader(&self, place: usize) -> usize {
        self.last_readers[place] as usize
    }

    /// The name of a weight.
    pub fn weight(&self, value: Value) -> Option<&'g str> {
        match &self.graph.node(value.node).kind {
            NodeKind::Weight(name) => Some(name),
            NodeKind::Input(_) | NodeKind::Op(_) => None,
        }
    }

    /// By what name a value is written: the tensor's for a weight, else that of the text form; `None`
    /// for a value that has a number only.
    pub fn name(&self, value: Value) -> Option<&str> {
        self.weight(value).or_else(|| self.labels.unique_name(value))
    }
}
