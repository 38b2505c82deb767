//! Graphs as lists that can be edited, and built again in another order and with other names.

use tallow_ir::{Graph, NodeKind, Op, TensorType, Value};

/// A node of the list: what it reads are positions in the list and result numbers.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: NodeKind,
    pub operands: Vec<(usize, u32)>,
    pub results: Vec<TensorType>,
    pub name: Option<String>,
}

/// A graph as a list of nodes.
#[derive(Clone, Debug)]
pub struct Plan {
    pub items: Vec<Item>,
    pub outputs: Vec<(String, usize, u32)>,
}

impl Plan {
    pub fn of(graph: &Graph) -> Plan {
        let order = graph.topological().unwrap();
        let mut at = vec![0; graph.node_bound()];
        order.iter().enumerate().for_each(|(i, id)| at[id.index()] = i);
        let item = |&id| {
            let node = graph.node(id);
            let operands = graph.operands(id).into_iter().map(|v| (at[v.node.index()], v.port)).collect();
            let name = graph.results(id).next().and_then(|v| graph.name_of(v)).map(str::to_owned);
            Item { kind: node.kind.clone(), operands, results: node.results.clone(), name }
        };
        let outputs = graph.outputs().map(|(name, v)| (name.to_owned(), at[v.node.index()], v.port)).collect();
        Plan { items: order.iter().map(item).collect(), outputs }
    }

    /// Builds the graph in an order that `pick` chooses: it gives a number for each choice.
    pub fn build(&self, mut pick: impl FnMut(usize) -> usize, names: bool) -> Graph {
        let n = self.items.len();
        let mut graph = Graph::new();
        let mut made: Vec<Option<Vec<Value>>> = vec![None; n];
        let mut waiting: Vec<usize> = self.items.iter().map(|i| i.operands.len()).collect();
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (i, item) in self.items.iter().enumerate() {
            item.operands.iter().for_each(|o| readers[o.0].push(i));
        }
        let mut ready: Vec<usize> = (0..n).filter(|&i| waiting[i] == 0).collect();
        while !ready.is_empty() {
            let i = ready.swap_remove(pick(ready.len()) % ready.len());
            let item = &self.items[i];
            let operands: Vec<Value> =
                item.operands.iter().map(|o| made[o.0].as_ref().unwrap()[o.1 as usize]).collect();
            let values = match &item.kind {
                NodeKind::Input(name) => vec![graph.input(name, item.results[0].clone()).unwrap()],
                NodeKind::Weight(name) => vec![graph.weight(name, item.results[0].clone()).unwrap()],
                NodeKind::Op(op) => {
                    let types: Vec<TensorType> = operands.iter().map(|&v| graph.ty(v).clone()).collect();
                    let results = op.infer(&types).unwrap_or_else(|_| item.results.clone());
                    graph.op_unchecked(op.clone(), &operands, results)
                }
            };
            if let (NodeKind::Op(_), Some(&value)) = (&item.kind, values.first()) {
                match &item.name {
                    Some(name) if names => graph.name(value, name.clone()),
                    Some(_) | None if !names && i.is_multiple_of(3) => {
                        graph.name(value, format!("t{}", (i * 7919) % 1009))
                    }
                    Some(_) | None => {}
                }
            }
            made[i] = Some(values);
            for &r in &readers[i] {
                waiting[r] -= 1;
                if waiting[r] == 0 {
                    ready.push(r);
                }
            }
        }
        for (name, i, port) in &self.outputs {
            graph.output(name, made[*i].as_ref().unwrap()[*port as usize]).unwrap();
        }
        graph
    }

    /// Whether an item depends on another, or is it.
    pub fn needs(&self, item: usize, other: usize) -> bool {
        let mut seen = vec![false; self.items.len()];
        let mut open = vec![item];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(self.items[at].operands.iter().map(|o| o.0));
            }
        }
        seen[other]
    }

    /// As it is.
    pub fn plain(&self) -> Graph {
        self.build(|_| 0, true)
    }

    /// Adds an operation behind a value, for all its readers or for one of them.
    pub fn insert(&mut self, at: usize, op: Op, only: Option<usize>) {
        let new = self.items.len();
        for (i, item) in self.items.iter_mut().enumerate() {
            for o in &mut item.operands {
                if *o == (at, 0) && only.is_none_or(|only| only == i) {
                    *o = (new, 0);
                }
            }
        }
        if only.is_none() {
            self.outputs.iter_mut().filter(|o| (o.1, o.2) == (at, 0)).for_each(|o| o.1 = new);
        }
        let results = self.items[at].results.clone();
        self.items.push(Item { kind: NodeKind::Op(op), operands: vec![(at, 0)], results, name: None });
    }

    /// Takes an operation out: its readers read its first operand.
    pub fn remove(&mut self, at: usize) {
        let first = self.items[at].operands[0];
        let redirect = |o: &mut (usize, u32)| {
            if o.0 == at {
                *o = first
            }
        };
        self.items.iter_mut().flat_map(|i| &mut i.operands).for_each(redirect);
        self.outputs.iter_mut().filter(|o| o.1 == at).for_each(|o| (o.1, o.2) = first);
        self.items.remove(at);
        self.items.iter_mut().flat_map(|i| &mut i.operands).for_each(|o| o.0 -= usize::from(o.0 > at));
        self.outputs.iter_mut().for_each(|o| o.1 -= usize::from(o.1 > at));
        // Weights that nothing reads any more go as well.
        let read: Vec<bool> = (0..self.items.len())
            .map(|i| self.items.iter().any(|item| item.operands.iter().any(|o| o.0 == i)))
            .collect();
        let lone = |i: usize| matches!(self.items[i].kind, NodeKind::Weight(_)) && !read[i];
        if let Some(i) = (0..self.items.len()).find(|&i| lone(i)) {
            self.items.remove(i);
            self.items.iter_mut().flat_map(|item| &mut item.operands).for_each(|o| o.0 -= usize::from(o.0 > i));
            self.outputs.iter_mut().for_each(|o| o.1 -= usize::from(o.1 > i));
        }
    }
}
