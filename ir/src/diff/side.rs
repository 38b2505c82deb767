//! A graph in flat tables: nodes by number, each after those it reads; outputs are nodes of their own at the end.

use crate::{Graph, IrError, NodeId, NodeKind, Op, TensorType, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Something that a node reads, or that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// Of an operand the node that gives it, of a reader the node that reads.
    pub node: u32,
    /// Number of the operand at the reader.
    pub number: u32,
    /// Number of the result.
    pub port: u32,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'g> {
    Input(&'g str),
    Weight(&'g str),
    Op(&'g Op),
    Output(&'g str),
}

impl<'g> Item<'g> {
    /// `input`, `weight`, `output`, or the name of the operation.
    pub fn word(&self) -> &'static str {
        match self {
            Item::Input(_) => "input",
            Item::Weight(_) => "weight",
            Item::Op(op) => op.name(),
            Item::Output(_) => "output",
        }
    }

    /// The name of an input, weight or output.
    pub fn name(&self) -> Option<&'g str> {
        match *self {
            Item::Input(name) | Item::Weight(name) | Item::Output(name) => Some(name),
            Item::Op(_) => None,
        }
    }

    pub fn is_op(&self) -> bool {
        matches!(self, Item::Op(_))
    }
}

/// One of the two graphs.
pub(super) struct Side<'g> {
    pub graph: &'g Graph,
    pub items: Vec<Item<'g>>,
    /// The node of each number; of an output, that which gives its value.
    pub ids: Vec<NodeId>,
    /// A hash of what each node is: of an operation with its attributes, of others their kind alone.
    pub labels: Vec<u64>,
    /// What kind of operation it is; beyond all those, whether it is an input, weight or output.
    pub tags: Vec<u32>,
    operands: Vec<Link>,
    operand_starts: Vec<u32>,
    readers: Vec<Link>,
    reader_starts: Vec<u32>,
}

impl<'g> Side<'g> {
    /// Linear. The numbers do not depend on ids, but for nodes that no output needs.
    pub fn new(graph: &'g Graph) -> Result<Self, IrError> {
        let order = order(graph)?;
        let mut number = vec![NONE; graph.node_bound()];
        for (i, id) in (0u32..).zip(&order) {
            number[id.index()] = i;
        }
        let mut outputs: Vec<(&str, Value)> = graph.outputs().collect();
        outputs.sort_unstable();
        let total = order.len() + outputs.len();
        let mut side = Side {
            graph,
            items: Vec::with_capacity(total),
            ids: order.clone(),
            labels: Vec::with_capacity(total),
            tags: Vec::with_capacity(total),
            operands: Vec::new(),
            operand_starts: Vec::with_capacity(total + 1),
            readers: Vec::new(),
            reader_starts: Vec::new(),
        };
        let link = |number_of: u32, value: Value| Link {
            node: number[value.node.index()],
            number: number_of,
            port: value.port,
        };
        for id in order {
            side.operand_starts.push(side.operands.len() as u32);
            side.operands.extend(graph.numbered_operands(id).into_iter().map(|(n, v)| link(n, v)));
            let item = match &graph.node(id).kind {
                NodeKind::Input(name) => Item::Input(name),
                NodeKind::Weight(name) => Item::Weight(name),
                NodeKind::Op(op) => Item::Op(op),
            };
            side.push(item);
        }
        for (name, value) in outputs {
            side.operand_starts.push(side.operands.len() as u32);
            side.operands.push(link(0, value));
            side.ids.push(value.node);
            side.push(Item::Output(name));
        }
        side.operand_starts.push(side.operands.len() as u32);
        side.invert();
        Ok(side)
    }

    fn push(&mut self, item: Item<'g>) {
        let kind = |n: u32| u32::from(u16::MAX) + n;
        let (label, tag) = match item {
            Item::Op(op) => (hash_of(op), u32::from(op.tag())),
            Item::Input(_) => (hash_of(item.word()), kind(1)),
            Item::Weight(_) => (hash_of(item.word()), kind(2)),
            Item::Output(_) => (hash_of(item.word()), kind(3)),
        };
        self.items.push(item);
        self.labels.push(label);
        self.tags.push(tag);
    }

    /// Fills the tables of readers.
    fn invert(&mut self) {
        let n = self.items.len();
        let mut starts = vec![0u32; n + 1];
        self.operands.iter().for_each(|o| starts[o.node as usize + 1] += 1);
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut readers = vec![Link { node: 0, number: 0, port: 0 }; self.operands.len()];
        for node in 0..n as u32 {
            for o in self.operands(node) {
                let slot = &mut next[o.node as usize];
                readers[*slot as usize] = Link { node, ..*o };
                *slot += 1;
            }
        }
        self.readers = readers;
        self.reader_starts = starts;
    }

    /// Number of nodes, outputs included.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn item(&self, node: u32) -> Item<'g> {
        self.items[node as usize]
    }

    /// What a node reads, by operand number.
    pub fn operands(&self, node: u32) -> &[Link] {
        &self.operands[self.operand_starts[node as usize] as usize..self.operand_starts[node as usize + 1] as usize]
    }

    /// What reads a node, by number of the reader.
    pub fn readers(&self, node: u32) -> &[Link] {
        &self.readers[self.reader_starts[node as usize] as usize..self.reader_starts[node as usize + 1] as usize]
    }

    /// The types of a node's results; an output has none.
    pub fn types(&self, node: u32) -> &'g [TensorType] {
        match self.item(node) {
            Item::Output(_) => &[],
            Item::Input(_) | Item::Weight(_) | Item::Op(_) => &self.graph.node(self.ids[node as usize]).results,
        }
    }

    /// The name for people of an operation's first result that has one.
    pub fn value_name(&self, node: u32) -> Option<&'g str> {
        if !self.item(node).is_op() {
            return None;
        }
        self.graph.results(self.ids[node as usize]).find_map(|value| self.graph.name_of(value))
    }

    /// Whether a node reads weights itself.
    pub fn reads_weights(&self, node: u32) -> bool {
        self.operands(node).iter().any(|o| matches!(self.item(o.node), Item::Weight(_)))
    }

    /// The value that a link carries.
    pub fn value(&self, operand: &Link) -> Value {
        Value { node: self.ids[operand.node as usize], port: operand.port }
    }
}

/// Every node after those it reads: first what the outputs need, output by output in order of their names, depth first;
/// then the rest, near what it reads.
fn order(graph: &Graph) -> Result<Vec<NodeId>, IrError> {
    let sorted = graph.topological().ok_or_else(|| cycle(graph))?;
    let mut outputs: Vec<(&str, Value)> = graph.outputs().collect();
    outputs.sort_unstable();
    let mut done = vec![false; graph.node_bound()];
    let mut order = Vec::with_capacity(sorted.len());
    let roots = outputs.into_iter().map(|(_, v)| v.node);
    let mut open: Vec<(NodeId, bool)> = Vec::new();
    for root in roots.chain(sorted) {
        open.push((root, false));
        while let Some((id, ready)) = open.pop() {
            if done[id.index()] {
                continue;
            }
            if ready {
                done[id.index()] = true;
                order.push(id);
                continue;
            }
            open.push((id, true));
            let operands = graph.operands(id).into_iter().rev().map(|v| v.node);
            open.extend(operands.filter(|n| !done[n.index()]).map(|n| (n, false)));
        }
    }
    Ok(order)
}

/// The error for a graph that has a cycle.
fn cycle(graph: &Graph) -> IrError {
    let reads_itself = |id: NodeId| graph.operands(id).iter().any(|v| v.node == id);
    let on = |set: &Vec<NodeId>| set.len() > 1 || set.iter().any(|&id| reads_itself(id));
    let first = graph.components().into_iter().filter(on).flatten().min();
    let node = first.map_or_else(String::new, |id| {
        let kind = match &graph.node(id).kind {
            NodeKind::Input(_) => "input",
            NodeKind::Weight(_) => "weight",
            NodeKind::Op(op) => op.name(),
        };
        format!("node {} {kind}", id.index())
    });
    IrError::Cycle { node }
}

/// A hash that is the same in every process.
pub(super) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// `hash` with another number in it: the order of numbers counts.
pub(super) fn mix(hash: u64, number: u64) -> u64 {
    let mut x = (hash.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}
