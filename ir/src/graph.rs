//! The graph: a petgraph of operations, inputs and weights, whose edges are values.

use crate::{IrError, Op, POS, Shape, TensorType};
use indexmap::IndexMap;
use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::{EdgeRef, IntoEdgeReferences};
use std::collections::HashMap;

/// Id of a node; stays valid while other nodes come and go. The default is that of the first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NodeIndex<u32>);

impl NodeId {
    /// The node with this number, of whichever graph: what tables of nodes are read with.
    pub fn from_index(index: usize) -> Self {
        NodeId(NodeIndex::new(index))
    }

    /// The number of the node.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

/// One result of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    /// The node that produces it.
    pub node: NodeId,
    /// Which of the node's results it is.
    pub port: u32,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// An input of the graph.
    Input(String),
    /// A weight, by its name in the tensor index.
    Weight(String),
    /// An operation.
    Op(Op),
}

/// A node with the types of its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Types of the results, by port.
    pub results: Vec<TensorType>,
}

/// Producer port and consumer port of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    from: u32,
    to: u32,
}

/// A graph of operations over named inputs and weights, with named outputs.
///
/// ```
/// use tallow_ir::{Dim, Graph, Op, Shape, TensorType};
/// let mut g = Graph::new();
/// let x = g.input("x", TensorType::f32(Shape::new([Dim::symbol("S"), 4.into()])))?;
/// let w = g.weight("w", TensorType::f32(Shape::fixed(&[8, 4])))?;
/// let y = g.op(Op::Matmul, &[x, w])?;
/// g.output("y", y)?;
/// assert_eq!(g.ty(y).to_string(), "f32[S, 8]");
/// # Ok::<(), tallow_ir::IrError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    net: StableDiGraph<Node, Edge, u32>,
    inputs: IndexMap<String, NodeId>,
    weights: IndexMap<String, NodeId>,
    outputs: IndexMap<String, Value>,
    /// Names of values, for people; they take no part in equality. Those of first results stand by
    /// node number, since most nodes have one result …
    names: Vec<Option<Box<str>>>,
    /// … and those of further results apart.
    further_names: HashMap<Value, Box<str>>,
    /// Device wishes of nodes, as the binary form carries them.
    hints: HashMap<NodeId, u8>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, ty: TensorType) -> Result<Value, IrError> {
        self.check_free(name)?;
        let node = self.add(NodeKind::Input(name.to_owned()), vec![ty]);
        self.inputs.insert(name.to_owned(), node);
        Ok(self.named(Value { node, port: 0 }, name))
    }

    /// The injected input [`POS`], an i64 scalar; added on first use.
    pub fn pos(&mut self) -> Result<Value, IrError> {
        match self.inputs.get(POS) {
            Some(&node) => Ok(Value { node, port: 0 }),
            None => self.input(POS, TensorType::i64(Shape::default())),
        }
    }

    /// Adds a weight; the same name again gives the same value and must have the same type.
    pub fn weight(&mut self, name: &str, ty: TensorType) -> Result<Value, IrError> {
        if let Some(&node) = self.weights.get(name) {
            let had = &self.net[node.0].results[0];
            if *had == ty {
                return Ok(Value { node, port: 0 });
            }
            return Err(IrError::Name {
                name: name.to_owned(),
                taken: format!("a weight of type {had}, now asked for as {ty}"),
            });
        }
        self.check_free(name)?;
        let node = self.add(NodeKind::Weight(name.to_owned()), vec![ty]);
        self.weights.insert(name.to_owned(), node);
        Ok(self.named(Value { node, port: 0 }, name))
    }

    /// Adds an operation with one result.
    pub fn op(&mut self, op: Op, operands: &[Value]) -> Result<Value, IrError> {
        let name = op.name();
        match self.op_many(op, operands)?.as_slice() {
            [one] => Ok(*one),
            many => Err(IrError::Rule {
                op: name,
                name: None,
                source: crate::RuleError::new(format!("has {} results where one is wanted", many.len())),
            }),
        }
    }

    /// Adds an operation; its results in order of the ports.
    pub fn op_many(&mut self, op: Op, operands: &[Value]) -> Result<Vec<Value>, IrError> {
        let types = operands.iter().map(|&v| self.try_ty(v).cloned()).collect::<Result<Vec<_>, _>>()?;
        let results = op.infer(&types).map_err(|source| IrError::Rule { op: op.name(), name: None, source })?;
        Ok(self.op_unchecked(op, operands, results))
    }

    /// Adds an operation whose result types the caller vouches for: what readers of graphs use, so
    /// that the verifier can report every fault. The operands must exist.
    pub fn op_unchecked(&mut self, op: Op, operands: &[Value], results: Vec<TensorType>) -> Vec<Value> {
        let ports = results.len() as u32;
        let node = self.op_node(op, operands, results);
        (0..ports).map(|port| Value { node, port }).collect()
    }

    /// [`Graph::op_unchecked`], for operations that may have no results.
    pub(crate) fn op_node(&mut self, op: Op, operands: &[Value], results: Vec<TensorType>) -> NodeId {
        let node = self.add(NodeKind::Op(op), results);
        for (to, v) in (0u32..).zip(operands) {
            self.connect(node, to, *v);
        }
        node
    }

    /// Names a result of the whole graph.
    pub fn output(&mut self, name: &str, value: Value) -> Result<(), IrError> {
        self.try_ty(value)?;
        if self.outputs.contains_key(name) {
            return Err(IrError::Name { name: name.to_owned(), taken: "an output".into() });
        }
        self.outputs.insert(name.to_owned(), value);
        Ok(())
    }

    /// Makes the output `name` another value.
    pub fn replace_output(&mut self, name: &str, value: Value) -> Result<(), IrError> {
        self.try_ty(value)?;
        let known = self.outputs.keys().cloned().collect::<Vec<_>>().join(", ");
        match self.outputs.get_mut(name) {
            Some(slot) => *slot = value,
            None => {
                return Err(IrError::Missing { kind: "output", name: name.to_owned(), known });
            }
        }
        Ok(())
    }

    /// Gives a value of this graph a name for people.
    pub fn name(&mut self, value: Value, name: impl Into<String>) {
        self.set_name(value, Some(name.into().into_boxed_str()));
    }

    /// The name of a value, if it has one.
    pub fn name_of(&self, value: Value) -> Option<&str> {
        match value.port {
            0 => self.names.get(value.node.index())?.as_deref(),
            _ => self.further_names.get(&value).map(|name| &**name),
        }
    }

    /// Takes the name of a value away.
    pub(crate) fn forget_name(&mut self, value: Value) {
        self.set_name(value, None);
    }

    fn set_name(&mut self, value: Value, name: Option<Box<str>>) {
        if self.try_ty(value).is_err() {
            return;
        }
        match (value.port, name) {
            (0, name) => {
                let at = value.node.index();
                if self.names.len() <= at {
                    self.names.resize(at + 1, None);
                }
                self.names[at] = name;
            }
            (_, Some(name)) => {
                self.further_names.insert(value, name);
            }
            (_, None) => {
                self.further_names.remove(&value);
            }
        }
    }

    /// Notes a device wish of the binary form.
    pub fn set_hint(&mut self, node: NodeId, hint: u8) {
        self.hints.insert(node, hint);
    }

    /// The device wish of a node.
    pub fn hint(&self, node: NodeId) -> Option<u8> {
        self.hints.get(&node).copied()
    }

    /// The type of a value.
    ///
    /// # Panics
    /// When the value is of another graph; use [`Graph::try_ty`] where that may be.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.net[value.node.0].results[value.port as usize]
    }

    /// The type of a value, or an error when it is not of this graph.
    pub fn try_ty(&self, value: Value) -> Result<&TensorType, IrError> {
        self.net
            .node_weight(value.node.0)
            .and_then(|n| n.results.get(value.port as usize))
            .ok_or(IrError::NoValue { node: value.node.index(), port: value.port })
    }

    /// A node.
    ///
    /// # Panics
    /// When the node is of another graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.net[id.0]
    }

    /// The operands of a node, in order.
    pub fn operands(&self, id: NodeId) -> Vec<Value> {
        self.numbered_operands(id).into_iter().map(|(_, v)| v).collect()
    }

    /// The operands of a node with their operand numbers, in order; a sound graph numbers them
    /// 0, 1, 2 ….
    pub fn numbered_operands(&self, id: NodeId) -> Vec<(u32, Value)> {
        let mut edges: Vec<(u32, Value)> = self
            .net
            .edges_directed(id.0, Direction::Incoming)
            .map(|e| (e.weight().to, Value { node: NodeId(e.source()), port: e.weight().from }))
            .collect();
        edges.sort_unstable();
        edges
    }

    /// The results of a node, in order.
    pub fn results(&self, id: NodeId) -> impl Iterator<Item = Value> + use<> {
        let ports = self.net[id.0].results.len() as u32;
        (0..ports).map(move |port| Value { node: id, port })
    }

    /// The readers of a value: node and operand number.
    pub fn readers(&self, value: Value) -> Vec<(NodeId, u32)> {
        let mut out: Vec<_> = self
            .net
            .edges_directed(value.node.0, Direction::Outgoing)
            .filter(|e| e.weight().from == value.port)
            .map(|e| (NodeId(e.target()), e.weight().to))
            .collect();
        out.sort_unstable();
        out
    }

    /// Every node, in order of creation.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.net.node_indices().map(NodeId)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.net.node_count()
    }

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.net.node_count() == 0
    }

    /// The inputs in order, the injected one included.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, Value)> {
        self.inputs.iter().map(|(n, &node)| (n.as_str(), Value { node, port: 0 }))
    }

    /// The weights in order of first use.
    pub fn weights(&self) -> impl Iterator<Item = (&str, Value)> {
        self.weights.iter().map(|(n, &node)| (n.as_str(), Value { node, port: 0 }))
    }

    /// The input of this name.
    pub fn input_named(&self, name: &str) -> Option<Value> {
        let node = *self.inputs.get(name)?;
        Some(Value { node, port: 0 })
    }

    /// The weight of this name.
    pub fn weight_named(&self, name: &str) -> Option<Value> {
        let node = *self.weights.get(name)?;
        Some(Value { node, port: 0 })
    }

    /// The value that is the output of this name.
    pub fn output_named(&self, name: &str) -> Option<Value> {
        self.outputs.get(name).copied()
    }

    /// The outputs in order.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, Value)> {
        self.outputs.iter().map(|(n, &v)| (n.as_str(), v))
    }

    /// Every node after the nodes it reads, in a fixed order; `None` where a cycle exists. Iterative,
    /// linear, and as near to the order of creation as the edges allow.
    pub fn topological(&self) -> Option<Vec<NodeId>> {
        let order = self.sorted_part();
        (order.len() == self.len()).then_some(order)
    }

    /// [`Graph::topological`] of a graph that may have cycles: the nodes on cycles, and those that
    /// read from them, are left out.
    pub(crate) fn sorted_part(&self) -> Vec<NodeId> {
        if self.net.edge_references().all(|e| e.source() < e.target()) {
            // As built: the walk below would give the same order.
            return self.nodes().collect();
        }
        let mut waiting = vec![0u32; self.node_bound()];
        let mut ready = std::collections::BinaryHeap::new();
        for n in self.net.node_indices() {
            let degree = self.net.edges_directed(n, Direction::Incoming).count();
            if degree == 0 {
                ready.push(std::cmp::Reverse(n));
            }
            waiting[n.index()] = degree as u32;
        }
        let mut order = Vec::with_capacity(self.len());
        while let Some(std::cmp::Reverse(n)) = ready.pop() {
            order.push(NodeId(n));
            for e in self.net.edges_directed(n, Direction::Outgoing) {
                let degree = &mut waiting[e.target().index()];
                *degree -= 1;
                if *degree == 0 {
                    ready.push(std::cmp::Reverse(e.target()));
                }
            }
        }
        order
    }

    /// The sets of nodes that depend on each other (strongly connected components). Iterative.
    pub(crate) fn components(&self) -> Vec<Vec<NodeId>> {
        petgraph::algo::kosaraju_scc(&self.net).into_iter().map(|set| set.into_iter().map(NodeId).collect()).collect()
    }

    /// One more than the highest node number: the length of a table indexed by
    /// [`NodeId::index`].
    pub fn node_bound(&self) -> usize {
        use petgraph::visit::NodeIndexable;
        self.net.node_bound()
    }

    /// Whether any operation reads a result of `id`. Outputs of the graph do not count.
    pub fn is_read(&self, id: NodeId) -> bool {
        self.net.edges_directed(id.0, Direction::Outgoing).next().is_some()
    }

    /// Adds operand `number` to a node made without it: what readers of graphs use for names that
    /// are defined later.
    pub(crate) fn connect(&mut self, node: NodeId, number: u32, value: Value) {
        self.net.add_edge(value.node.0, node.0, Edge { from: value.port, to: number });
    }

    /// Makes operand `number` of `node` read `value` instead. The caller keeps the types right.
    pub fn set_operand(&mut self, node: NodeId, number: u32, value: Value) -> Result<(), IrError> {
        self.try_ty(value)?;
        let old =
            self.net.edges_directed(node.0, Direction::Incoming).find(|e| e.weight().to == number).map(|e| e.id());
        if let Some(old) = old {
            self.net.remove_edge(old);
        }
        self.net.add_edge(value.node.0, node.0, Edge { from: value.port, to: number });
        Ok(())
    }

    /// Replaces the recorded result types of a node: for passes that change what flows in.
    pub fn set_results(&mut self, node: NodeId, results: Vec<TensorType>) {
        if let Some(n) = self.net.node_weight_mut(node.0) {
            n.results = results;
        }
    }

    fn add(&mut self, kind: NodeKind, results: Vec<TensorType>) -> NodeId {
        NodeId(self.net.add_node(Node { kind, results }))
    }

    fn named(&mut self, value: Value, name: &str) -> Value {
        self.name(value, name);
        value
    }

    fn check_free(&self, name: &str) -> Result<(), IrError> {
        let taken = if self.inputs.contains_key(name) {
            "an input"
        } else if self.weights.contains_key(name) {
            "a weight"
        } else {
            return Ok(());
        };
        Err(IrError::Name { name: name.to_owned(), taken: taken.into() })
    }
}
