//! A graph as passes see it: operands, readers and counts at hand, and numbers of nodes that stay.
//!
//! Nodes keep the numbers of the graph that the body was made of; what a pass adds is numbered on. A graph is made of
//! it again at the end, or after each pass for those who look on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use tallow_ir::{Effect, Graph, IrError, NodeId, NodeKind, Op, TensorType, Value};

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub kind: NodeKind,
    pub types: Vec<TensorType>,
    pub operands: Vec<Value>,
    /// For each result: what may read it. Readers that have gone stay listed until the list is used.
    readers: Vec<Vec<(NodeId, u32)>>,
    /// For each result: how many operands and outputs read it.
    uses: Vec<u32>,
    names: Vec<Option<Box<str>>>,
    hint: Option<u8>,
    /// Where it stands among nodes that are ready at the same time: nodes that a pass adds stand where those stood that
    /// they are for.
    pub rank: u32,
    /// The nodes of the first graph that it stands for.
    pub origin: Vec<NodeId>,
    /// The number of its cache, where it keeps state.
    pub cache: Option<u32>,
}

/// A graph that passes change.
#[derive(Clone, Debug, Default)]
pub struct Body {
    nodes: Vec<Option<Entry>>,
    inputs: Vec<NodeId>,
    outputs: Vec<(String, Value)>,
    /// The places in `outputs` of each value that is one.
    output_places: HashMap<Value, Vec<usize>>,
    /// How many nodes there are.
    live: usize,
}

/// What a removal has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    /// What the operations among them stood for.
    pub origin: Vec<NodeId>,
    /// Nodes with fewer readers than before.
    pub kept: Vec<NodeId>,
}

/// A graph made of a body, with what its nodes stand for.
#[derive(Clone, Debug)]
pub struct Made {
    /// The graph.
    pub graph: Graph,
    /// For each node number of the graph: the nodes of the first graph that it stands for, in order.
    pub origin: Vec<Vec<NodeId>>,
    /// The number of the cache of each node that keeps state.
    pub caches: HashMap<NodeId, u32>,
}

impl Body {
    /// The body of a graph. Nodes that keep state are numbered in order.
    ///
    /// # Errors
    /// A graph with a cycle.
    pub fn new(graph: &Graph) -> Result<Self, IrError> {
        let order = graph.topological().ok_or(IrError::NoValue { node: 0, port: 0 })?;
        let mut body = Body { nodes: vec![None; graph.node_bound()], ..Body::default() };
        for (rank, id) in (0u32..).zip(order) {
            let node = graph.node(id);
            let operands = graph.operands(id);
            let ports = node.results.len();
            let names = graph.results(id).map(|v| graph.name_of(v).map(Into::into)).collect();
            body.nodes[id.index()] = Some(Entry {
                kind: node.kind.clone(),
                types: node.results.clone(),
                operands: Vec::new(),
                readers: vec![Vec::new(); ports],
                uses: vec![0; ports],
                names,
                hint: graph.hint(id),
                rank,
                origin: vec![id],
                cache: None,
            });
            body.live += 1;
            body.set_operands(id, operands);
        }
        let stateful: Vec<NodeId> = graph.nodes().filter(|&id| body.effect(id) == Effect::State).collect();
        for (cache, id) in (0u32..).zip(stateful) {
            body.entry_mut(id).cache = Some(cache);
        }
        body.inputs = graph.inputs().map(|(_, v)| v.node).collect();
        for (name, value) in graph.outputs() {
            body.output_places.entry(value).or_default().push(body.outputs.len());
            body.outputs.push((name.to_owned(), value));
            body.entry_mut(value.node).uses[value.port as usize] += 1;
        }
        Ok(body)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// One more than the highest number of a node.
    pub fn bound(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the node is still there.
    pub fn has(&self, id: NodeId) -> bool {
        matches!(self.nodes.get(id.index()), Some(Some(_)))
    }

    // The index is that of a node which is there: what callers get from the body itself.
    #[allow(clippy::expect_used)]
    pub(crate) fn entry(&self, id: NodeId) -> &Entry {
        self.nodes[id.index()].as_ref().expect("a node that is there")
    }

    #[allow(clippy::expect_used)]
    fn entry_mut(&mut self, id: NodeId) -> &mut Entry {
        self.nodes[id.index()].as_mut().expect("a node that is there")
    }

    /// What a node is.
    ///
    /// # Panics
    /// This and the functions below: when the node has gone ([`Body::has`]).
    pub fn kind(&self, id: NodeId) -> &NodeKind {
        &self.entry(id).kind
    }

    /// The operation of a node; `None` for an input or a weight.
    pub fn op(&self, id: NodeId) -> Option<&Op> {
        match &self.entry(id).kind {
            NodeKind::Op(op) => Some(op),
            NodeKind::Input(_) | NodeKind::Weight(_) => None,
        }
    }

    /// Whether a value is a weight.
    pub fn is_weight(&self, value: Value) -> bool {
        matches!(self.entry(value.node).kind, NodeKind::Weight(_))
    }

    /// What a node does beside computing; inputs and weights do nothing.
    pub fn effect(&self, id: NodeId) -> Effect {
        self.op(id).map_or(Effect::Pure, |op| op.info().effect)
    }

    /// The operands of a node.
    pub fn operands(&self, id: NodeId) -> &[Value] {
        &self.entry(id).operands
    }

    /// Operand `at` of a node.
    pub fn operand(&self, id: NodeId, at: usize) -> Option<Value> {
        self.entry(id).operands.get(at).copied()
    }

    /// The operation that makes a value, with its node, where it is result 0.
    pub fn maker(&self, value: Value) -> Option<(NodeId, &Op)> {
        (value.port == 0).then(|| self.op(value.node).map(|op| (value.node, op)))?
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.entry(value.node).types[value.port as usize]
    }

    /// The types of the results of a node.
    pub fn types(&self, id: NodeId) -> &[TensorType] {
        &self.entry(id).types
    }

    /// The results of a node.
    pub fn results(&self, id: NodeId) -> impl Iterator<Item = Value> + use<> {
        (0..self.entry(id).types.len() as u32).map(move |port| Value { node: id, port })
    }

    /// How many operands and outputs read a value.
    pub fn uses(&self, value: Value) -> usize {
        self.entry(value.node).uses[value.port as usize] as usize
    }

    /// The names of the outputs that a value is.
    pub fn output_names(&self, value: Value) -> Vec<&str> {
        let places = self.output_places.get(&value).into_iter().flatten();
        places.map(|&at| self.outputs[at].0.as_str()).collect()
    }

    /// Whether a value is an output.
    pub fn is_output(&self, value: Value) -> bool {
        self.output_places.contains_key(&value)
    }

    /// The operands that read a value: node and operand number, in order.
    pub fn readers(&self, value: Value) -> Vec<(NodeId, u32)> {
        let listed = &self.entry(value.node).readers[value.port as usize];
        let mut out: Vec<_> = listed.iter().copied().filter(|&(id, at)| self.reads(id, at, value)).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    fn reads(&self, id: NodeId, at: u32, value: Value) -> bool {
        self.nodes[id.index()].as_ref().is_some_and(|e| e.operands.get(at as usize) == Some(&value))
    }

    /// The node that reads a value, where that is one operand alone and the value is no output.
    ///
    /// # Errors
    /// Why there is no such reader, as remarks say it.
    pub fn only_reader(&self, value: Value) -> Result<(NodeId, u32), String> {
        let outputs = self.output_names(value);
        if let Some(name) = outputs.first() {
            return Err(format!("`{}` is the output `{name}`", self.place(value.node)));
        }
        match self.uses(value) {
            1 => self.readers(value).first().copied().ok_or_else(|| "nothing reads it".to_owned()),
            n => Err(format!("`{}` has {n} readers", self.place(value.node))),
        }
    }

    /// What messages call a node: the name of its first result, else `Add#12`.
    pub fn place(&self, id: NodeId) -> String {
        let entry = self.entry(id);
        if let Some(name) = entry.names.iter().flatten().next() {
            return name.to_string();
        }
        match &entry.kind {
            NodeKind::Op(op) => format!("{}#{}", op.name(), id.index()),
            NodeKind::Input(name) | NodeKind::Weight(name) => name.clone(),
        }
    }

    /// The nodes that are there, by number.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(|&at| self.nodes[at].is_some()).map(NodeId::from_index)
    }

    /// The outputs.
    pub fn outputs(&self) -> &[(String, Value)] {
        &self.outputs
    }

    /// Every node, nearly in topological order: nodes that passes added stand where those stood that they are for.
    pub(crate) fn by_rank(&self) -> Vec<NodeId> {
        let mut order: Vec<NodeId> = self.ids().collect();
        order.sort_unstable_by_key(|&id| (self.entry(id).rank, id));
        order
    }

    /// Every node after those it reads.
    pub fn topological(&self) -> Vec<NodeId> {
        let key = |id: NodeId| (self.entry(id).rank, id);
        let mut order = self.by_rank();
        let mut at = vec![0u32; self.nodes.len()];
        (0u32..).zip(&order).for_each(|(place, id)| at[id.index()] = place);
        let sorted = |id: &NodeId| self.operands(*id).iter().all(|v| at[v.node.index()] < at[id.index()]);
        if order.iter().all(sorted) {
            return order;
        }
        let mut waiting: Vec<u32> = vec![0; self.nodes.len()];
        let mut ready = BinaryHeap::new();
        for &id in &order {
            waiting[id.index()] = self.operands(id).len() as u32;
            if waiting[id.index()] == 0 {
                ready.push(Reverse(key(id)));
            }
        }
        order.clear();
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            for value in self.results(id) {
                for (reader, _) in self.readers(value) {
                    waiting[reader.index()] -= 1;
                    if waiting[reader.index()] == 0 {
                        ready.push(Reverse(key(reader)));
                    }
                }
            }
        }
        order
    }

    /// Adds an operation.
    pub(crate) fn add(&mut self, op: Op, types: Vec<TensorType>, operands: Vec<Value>, rank: u32) -> NodeId {
        let id = NodeId::from_index(self.nodes.len());
        let ports = types.len();
        self.nodes.push(Some(Entry {
            kind: NodeKind::Op(op),
            types,
            operands: Vec::new(),
            readers: vec![Vec::new(); ports],
            uses: vec![0; ports],
            names: vec![None; ports],
            hint: None,
            rank,
            origin: Vec::new(),
            cache: None,
        }));
        self.live += 1;
        self.set_operands(id, operands);
        id
    }

    /// Notes what a node stands for, and the cache that it keeps.
    pub(crate) fn stands_for(&mut self, id: NodeId, origin: Vec<NodeId>, cache: Option<u32>) {
        let entry = self.entry_mut(id);
        entry.origin = origin;
        entry.cache = cache;
    }

    fn set_operands(&mut self, id: NodeId, operands: Vec<Value>) {
        for (at, &value) in (0u32..).zip(&operands) {
            let of = self.entry_mut(value.node);
            of.uses[value.port as usize] += 1;
            of.readers[value.port as usize].push((id, at));
        }
        self.entry_mut(id).operands = operands;
    }

    /// Makes everything that reads `old` read `new`; the name of `old` goes to a `new` without one.
    pub(crate) fn redirect(&mut self, old: Value, new: Value) -> Vec<NodeId> {
        let listed = std::mem::take(&mut self.entry_mut(old.node).readers[old.port as usize]);
        let readers: Vec<_> = listed.into_iter().filter(|&(id, at)| self.reads(id, at, old)).collect();
        let mut moved = 0;
        for &(id, at) in &readers {
            // Listed twice where it was moved away and back.
            if self.reads(id, at, old) {
                self.entry_mut(id).operands[at as usize] = new;
                moved += 1;
                self.entry_mut(new.node).readers[new.port as usize].push((id, at));
            }
        }
        if let Some(places) = self.output_places.remove(&old) {
            for &at in &places {
                self.outputs[at].1 = new;
                moved += 1;
            }
            self.output_places.entry(new).or_default().extend(places);
        }
        self.entry_mut(old.node).uses[old.port as usize] -= moved;
        self.entry_mut(new.node).uses[new.port as usize] += moved;
        let name = self.entry_mut(old.node).names[old.port as usize].take();
        let slot = &mut self.entry_mut(new.node).names[new.port as usize];
        if slot.is_none() {
            *slot = name;
        }
        readers.into_iter().map(|(id, _)| id).collect()
    }

    /// Whether nothing needs a node: unread, no input, without effect.
    pub(crate) fn is_dead(&self, id: NodeId) -> bool {
        let entry = self.entry(id);
        let acts = matches!(self.effect(id), Effect::State | Effect::Host);
        !acts && entry.uses.iter().all(|&n| n == 0) && !matches!(entry.kind, NodeKind::Input(_))
    }

    /// Removes a node that nothing reads, whatever it does, and then what nothing needs any more among its operands,
    /// and so on.
    pub(crate) fn remove(&mut self, id: NodeId, gone: &mut Gone) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let Some(entry) = self.nodes[id.index()].take() else { continue };
            self.live -= 1;
            if matches!(entry.kind, NodeKind::Op(_)) {
                gone.origin.extend(entry.origin);
            }
            for value in entry.operands {
                let Some(of) = self.nodes[value.node.index()].as_mut() else { continue };
                of.uses[value.port as usize] -= 1;
                if self.is_dead(value.node) {
                    open.push(value.node);
                } else {
                    gone.kept.push(value.node);
                }
            }
        }
    }

    /// The graph of this body: inputs in their order, then nodes after those they read.
    ///
    /// # Errors
    /// None for a body made of a graph: names stay unique.
    pub fn graph(&self) -> Result<Made, IrError> {
        let mut out = Graph::new();
        let mut at: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut origin = Vec::with_capacity(self.live);
        let mut caches = HashMap::new();
        for &id in &self.inputs {
            if let NodeKind::Input(name) = self.kind(id) {
                at[id.index()] = Some(out.input(name, self.types(id)[0].clone())?.node);
                origin.push(self.entry(id).origin.clone());
            }
        }
        for id in self.topological() {
            let entry = self.entry(id);
            let new = match &entry.kind {
                NodeKind::Input(_) => continue,
                NodeKind::Weight(name) => Some(out.weight(name, entry.types[0].clone())?),
                NodeKind::Op(op) => {
                    let operands: Vec<Value> = entry
                        .operands
                        .iter()
                        .filter_map(|v| at[v.node.index()].map(|node| Value { node, port: v.port }))
                        .collect();
                    out.op_unchecked(op.clone(), &operands, entry.types.clone()).first().copied()
                }
            };
            let Some(Value { node: new, .. }) = new else { continue };
            at[id.index()] = Some(new);
            origin.push(entry.origin.clone());
            for (port, name) in (0u32..).zip(&entry.names) {
                if let Some(name) = name {
                    out.name(Value { node: new, port }, &**name);
                }
            }
            if let Some(hint) = entry.hint {
                out.set_hint(new, hint);
            }
            if let Some(cache) = entry.cache {
                caches.insert(new, cache);
            }
        }
        for (name, value) in &self.outputs {
            if let Some(node) = at[value.node.index()] {
                out.output(name, Value { node, port: value.port })?;
            }
        }
        Ok(Made { graph: out, origin, caches })
    }
}
