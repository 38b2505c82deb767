//! From the binary form to a graph: names bind, types are inferred.

use super::names::Names;
use super::unify::Unifier;
use super::{Input, RawGraph};
use crate::ops::MAX_RANK;
use crate::{DType, Dim, Effect, Graph, POS, SEQUENCE, Shape, TensorType, Value};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fmt;

/// The tensor of the output head, which a file may lack …
const HEAD: &str = "lm_head.weight";
/// … where the config ties it to the table of embeddings.
const EMBEDDINGS: &str = "model.embed_tokens.weight";
/// Inputs with one entry a token, whose dynamic dimensions are the same.
const TOKEN_INPUTS: [&str; 4] = ["input_ids", "token_type_ids", "attention_mask", "position_ids"];

/// What the names of a graph are bound to.
#[derive(Clone, Copy)]
pub struct Binding<'a> {
    /// The type of a weight by its name in the tensor index.
    pub weights: &'a dyn Fn(&str) -> Option<TensorType>,
    /// Whether `lm_head.weight`, where the index lacks it, is `model.embed_tokens.weight`.
    pub tie_head: bool,
    /// Types of inputs that the caller knows better than the file; a name that is no input of the
    /// graph is an error.
    pub inputs: &'a [(&'a str, TensorType)],
}

/// One thing that does not bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindError {
    /// The node's number in the file, and its place there counted from 0; `None` outside nodes.
    pub node: Option<(u32, usize)>,
    /// The operation.
    pub op: Option<&'static str>,
    /// Names that the node reads.
    pub inputs: Vec<String>,
    /// Names that the node writes, or the name in question.
    pub outputs: Vec<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((id, _)) = self.node {
            write!(f, "node {id} ")?;
        }
        if let Some(op) = self.op {
            write!(f, "{op}({}) → {}: ", short(&self.inputs), short(&self.outputs))?;
        }
        f.write_str(&self.message)
    }
}

fn short(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// Everything that does not bind; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BindErrors {
    /// The errors, in order of the file.
    pub errors: Vec<BindError>,
}

impl fmt::Display for BindErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::error::one_a_line(f, &self.errors)
    }
}

impl RawGraph {
    /// [`RawGraph::to_graph_with`] with no types of inputs beside the file's.
    ///
    /// # Errors
    /// See [`RawGraph::to_graph_with`].
    pub fn to_graph(&self, weights: &dyn Fn(&str) -> Option<TensorType>, tie_head: bool) -> Result<Graph, BindErrors> {
        self.to_graph_with(&Binding { weights, tie_head, inputs: &[] })
    }

    /// Binds each name that a node reads to what produces it, else to a declared input, else to a
    /// weight (the alias of a tied output head included), and infers all types.
    ///
    /// - `pos` is the injected input, an `i64` scalar unless an integer input of that name is
    ///   declared.
    /// - The bare form derives inputs (read, never written, no weight) and outputs (written, never
    ///   read). The type of a derived input is the one given in `binding`, else `f32[1]`: bare
    ///   graphs were written for one token a call and hold ids as floats. A name such as
    ///   `….weight` or `….bias` that the index lacks is a missing weight, not an input.
    /// - A dynamic dimension of `input_ids`, `token_type_ids`, `attention_mask` or `position_ids`
    ///   is `S` if it is the last dynamic one of its input, and `B` if it is the first dimension
    ///   otherwise. Every other dynamic dimension has a symbol of its own, `d1`, `d2` …; in a graph that
    ///   has none of those four inputs, and keeps a cache or reads `pos`, the first of them is `S`.
    ///   Two that must be equal for an operation to fit become one.
    /// - A declared input that stands in the tensor index is that weight.
    /// - A value named `%…` has no name of its own.
    ///
    /// # Errors
    /// Every name that is not bound, bound twice or part of a cycle, and every operation whose
    /// operands do not fit. What depends on a fault is not reported again.
    pub fn to_graph_with(&self, binding: &Binding<'_>) -> Result<Graph, BindErrors> {
        let names = Names::new(self);
        let mut binder = Binder {
            raw: self,
            binding,
            graph: Graph::new(),
            errors: Vec::new(),
            values: vec![Binds::Unread; names.len()],
            producers: vec![None; names.len()],
            names: &names,
            given: binding.inputs.iter().map(|(n, t)| (*n, t)).collect(),
            unifier: Unifier::default(),
        };
        binder.producers();
        binder.declared();
        binder.nodes();
        binder.outputs();
        binder.unused();
        if binder.errors.is_empty() {
            Ok(binder.graph)
        } else {
            // In order of the file; faults of the whole graph first.
            binder.errors.sort_by_key(|e| e.node.map(|(_, at)| at));
            Err(BindErrors { errors: binder.errors })
        }
    }
}

struct Binder<'g, 'b> {
    raw: &'g RawGraph,
    binding: &'b Binding<'b>,
    graph: Graph,
    errors: Vec<BindError>,
    names: &'g Names<'g>,
    /// What each name stands for.
    values: Vec<Binds>,
    /// The node that writes each name.
    producers: Vec<Option<usize>>,
    /// Types of inputs from the caller that are not used yet.
    given: HashMap<&'b str, &'b TensorType>,
    unifier: Unifier,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Binds {
    /// Not known yet.
    Unread,
    /// A value; `None` where a fault stands in the way.
    To(Option<Value>),
}

impl<'g> Binder<'g, '_> {
    /// Who writes what; a name written twice, or a weight's name, is ambiguous.
    fn producers(&mut self) {
        let names = self.names;
        for at in 0..self.raw.nodes.len() {
            for &number in names.written(at) {
                let name = names.text(number);
                if let Some(first) = self.producers[number] {
                    let other = self.raw.nodes[first].id;
                    self.fault(at, format!("`{name}` is written by node {other} already"));
                    continue;
                }
                self.producers[number] = Some(at);
                if name == POS {
                    self.fault(at, format!("`{POS}` is reserved for the number of cached tokens"));
                } else if (self.binding.weights)(name).is_some() {
                    self.fault(
                        at,
                        format!("`{name}` is a weight of the model as well; which one readers mean is not settled"),
                    );
                }
            }
        }
    }

    /// Inputs of the full form.
    fn declared(&mut self) {
        let Some(interface) = &self.raw.interface else {
            return;
        };
        let tokens = interface.inputs.iter().any(|i| is_token(&i.name));
        let sequential = |n: &super::RawNode| n.op.info().effect == Effect::State || n.inputs.iter().any(|i| i == POS);
        let first = if !tokens && self.raw.nodes.iter().any(sequential) { SEQUENCE } else { "d1" };
        let mut fresh = 0;
        let mut seen = HashSet::new();
        for input in &interface.inputs {
            let name = input.name.as_str();
            let Some(number) = self.names.number(name) else { continue };
            let fault = if !seen.insert(name) {
                Some(format!("the input `{name}` is declared twice"))
            } else if let Some(at) = self.producers[number] {
                let id = self.raw.nodes[at].id;
                Some(format!("the input `{name}` is written by node {id} as well"))
            } else if input.dims.len() > MAX_RANK {
                Some(format!("the input `{name}` has {} dimensions, at most {MAX_RANK} are possible", input.dims.len()))
            } else {
                None
            };
            if let Some(message) = fault {
                if let Binds::Unread = self.values[number] {
                    self.values[number] = Binds::To(None);
                }
                self.whole(name, message);
                continue;
            }
            let value = if let Some(ty) = (self.binding.weights)(name) {
                self.stored(input, ty)
            } else if input.place.is_some() {
                self.whole(
                    name,
                    format!(
                        "the input `{name}` stands in the weights, and the tensor index has no tensor of that name"
                    ),
                );
                None
            } else {
                let ty = match self.given.remove(name) {
                    Some(ty) => ty.clone(),
                    None if name == POS && !input.dtype.is_integer() => TensorType::i64(Shape::default()),
                    None => symbolic(input, first, &mut fresh),
                };
                self.input(name, ty)
            };
            self.values[number] = Binds::To(value);
        }
    }

    /// A declared input that is a weight.
    fn stored(&mut self, input: &Input, ty: TensorType) -> Option<Value> {
        let fits = input.dims.len() == ty.shape.rank()
            && input.dims.iter().zip(ty.shape.dims()).all(|(n, d)| *n == -1 || d.as_const() == Some(*n));
        if !fits {
            self.whole(
                &input.name,
                format!(
                    "the input `{}` is declared with shape {:?}, the tensor of that name has {}",
                    input.name, input.dims, ty.shape
                ),
            );
            return None;
        }
        self.weight(&input.name, ty)
    }

    /// All nodes, each after those it reads and as near to the order of the file as that allows.
    fn nodes(&mut self) {
        let nodes = &self.raw.nodes;
        let names = self.names;
        let producers = |at: usize| names.read(at).iter().filter_map(|&number| self.producers[number]);
        let mut waiting = vec![0u32; nodes.len()];
        // The readers of each node stand one node after another.
        let mut start = vec![0usize; nodes.len() + 1];
        for (at, waiting) in waiting.iter_mut().enumerate() {
            for from in producers(at) {
                *waiting += 1;
                start[from + 1] += 1;
            }
        }
        for at in 0..nodes.len() {
            start[at + 1] += start[at];
        }
        let mut readers = vec![0u32; start.last().copied().unwrap_or(0)];
        let mut filled = start.clone();
        for at in 0..nodes.len() {
            for from in producers(at) {
                readers[filled[from]] = at as u32;
                filled[from] += 1;
            }
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..nodes.len()).filter(|&at| waiting[at] == 0).map(Reverse).collect();
        let mut done = 0;
        while let Some(Reverse(at)) = ready.pop() {
            done += 1;
            self.node(at);
            for &reader in &readers[start[at]..start[at + 1]] {
                let left = &mut waiting[reader as usize];
                *left -= 1;
                if *left == 0 {
                    ready.push(Reverse(reader as usize));
                }
            }
        }
        if done < nodes.len() {
            const SHOWN: usize = 8;
            let stuck: Vec<usize> = (0..nodes.len()).filter(|&at| waiting[at] > 0).collect();
            let ids: Vec<String> = stuck.iter().take(SHOWN).map(|&at| nodes[at].id.to_string()).collect();
            self.whole(
                "",
                format!(
                    "{} nodes depend on their own results or on such that do: node {}{}",
                    stuck.len(),
                    ids.join(", node "),
                    if stuck.len() > SHOWN { " …" } else { "" }
                ),
            );
            for at in stuck {
                for &number in names.written(at) {
                    self.values[number] = Binds::To(None);
                }
            }
        }
    }

    fn node(&mut self, at: usize) {
        let names = self.names;
        let operands: Vec<Option<Value>> = names.read(at).iter().map(|&number| self.read(at, number)).collect();
        let made = self.operation(at, &operands);
        for (port, &number) in names.written(at).iter().enumerate() {
            let value = made.as_ref().and_then(|m| m.get(port).copied());
            // The first of two writers stands.
            if self.producers[number] == Some(at) {
                self.values[number] = Binds::To(value);
            }
            let name = names.text(number);
            if let Some(value) = value
                && !name.starts_with('%')
            {
                self.graph.name(value, name);
            }
        }
    }

    /// The results of a node; `None` after a fault here or before.
    fn operation(&mut self, at: usize, operands: &[Option<Value>]) -> Option<Vec<Value>> {
        let node = &self.raw.nodes[at];
        let mut sound = true;
        if let Err(error) = node.op.info().check_arity(operands.len()) {
            self.fault(at, error.0);
            sound = false;
        }
        let gives = node.op.result_count();
        if gives != node.outputs.len() {
            let message = format!("gives {gives} results, {} are named", node.outputs.len());
            self.fault(at, message);
            sound = false;
        }
        let operands: Option<Vec<Value>> = operands.iter().copied().collect();
        let operands = operands.filter(|_| sound)?;
        let types: Vec<TensorType> = operands.iter().map(|&v| self.graph.ty(v).clone()).collect();
        match node.op.infer(&types) {
            Ok(results) => {
                let id = self.graph.op_node(node.op.clone(), &operands, results);
                if let Some(hint) = node.hint {
                    self.graph.set_hint(id, hint);
                }
                Some(self.graph.results(id).collect())
            }
            // Dynamic dimensions that the file could not say are equal.
            Err(error) => match self.unifier.settle(&mut self.graph, &node.op, &types) {
                Some(_) => self.operation(at, &operands.into_iter().map(Some).collect::<Vec<_>>()),
                None => {
                    self.fault(at, error.0);
                    None
                }
            },
        }
    }

    /// The value of a name that node `at` reads.
    fn read(&mut self, at: usize, number: usize) -> Option<Value> {
        if let Binds::To(value) = self.values[number] {
            return value;
        }
        let name = self.names.text(number);
        let value = if name == POS {
            match self.given.remove(name) {
                Some(ty) => self.input(name, ty.clone()),
                None => self.graph.pos().ok(),
            }
        } else if let Some(ty) = (self.binding.weights)(name) {
            self.weight(name, ty)
        } else if let Some(ty) = self.tied(name) {
            self.weight(EMBEDDINGS, ty)
        } else if !self.raw.is_bare() {
            self.fault(
                at,
                format!("nothing writes `{name}`, and it is neither an input of the graph nor a tensor of the model"),
            );
            None
        } else if let Some(ty) = self.given.remove(name) {
            self.input(name, ty.clone())
        } else if name.ends_with(".weight") || name.ends_with(".bias") {
            self.fault(at, format!("the model has no tensor `{name}`"));
            None
        } else {
            self.input(name, TensorType::f32(Shape::fixed(&[1])))
        };
        self.values[number] = Binds::To(value);
        value
    }

    fn tied(&self, name: &str) -> Option<TensorType> {
        (name == HEAD && self.binding.tie_head).then(|| (self.binding.weights)(EMBEDDINGS)).flatten()
    }

    fn outputs(&mut self) {
        let raw = self.raw;
        match &raw.interface {
            Some(interface) => {
                for name in &interface.outputs {
                    let value = match self.names.number(name).map(|number| self.values[number]) {
                        Some(Binds::To(value)) => value,
                        Some(Binds::Unread) | None => match (self.binding.weights)(name) {
                            Some(ty) => self.weight(name, ty),
                            None => {
                                self.whole(name, format!("nothing writes the output `{name}`"));
                                None
                            }
                        },
                    };
                    self.output(name, value);
                }
            }
            None => {
                let names = self.names;
                let mut read = vec![false; names.len()];
                for at in 0..raw.nodes.len() {
                    names.read(at).iter().for_each(|&number| read[number] = true);
                }
                for at in 0..raw.nodes.len() {
                    for &number in names.written(at) {
                        if self.producers[number] == Some(at)
                            && !read[number]
                            && let Binds::To(value) = self.values[number]
                        {
                            self.output(names.text(number), value);
                        }
                    }
                }
            }
        }
    }

    /// Types that the caller gave for inputs which the graph lacks.
    fn unused(&mut self) {
        let mut names: Vec<&str> = self.given.keys().copied().collect();
        names.sort_unstable();
        for name in names {
            self.whole(name, format!("a type is given for `{name}`, which is no input of the graph"));
        }
    }

    fn input(&mut self, name: &str, ty: TensorType) -> Option<Value> {
        let made = self.graph.input(name, ty);
        self.note(name, made)
    }

    fn weight(&mut self, name: &str, ty: TensorType) -> Option<Value> {
        let made = self.graph.weight(name, ty);
        self.note(name, made)
    }

    fn output(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value {
            let made = self.graph.output(name, value);
            self.note(name, made);
        }
    }

    fn note<T>(&mut self, name: &str, made: Result<T, crate::IrError>) -> Option<T> {
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                self.whole(name, error.to_string());
                None
            }
        }
    }

    /// A fault of one node.
    fn fault(&mut self, at: usize, message: String) {
        const KEPT: usize = 16;
        let node = &self.raw.nodes[at];
        let keep = |names: &[String]| names.iter().take(KEPT).cloned().collect();
        self.errors.push(BindError {
            node: Some((node.id, at)),
            op: Some(node.op.name()),
            inputs: keep(&node.inputs),
            outputs: keep(&node.outputs),
            message,
        });
    }

    /// A fault outside the nodes.
    fn whole(&mut self, name: &str, message: String) {
        self.errors.push(BindError {
            node: None,
            op: None,
            inputs: Vec::new(),
            outputs: vec![name.to_owned()],
            message,
        });
    }
}

fn is_token(name: &str) -> bool {
    TOKEN_INPUTS.contains(&name)
}

/// The declared type, with symbols for dynamic dimensions: `first` for the first that has no meaning
/// of its own.
fn symbolic(input: &Input, first: &str, fresh: &mut u32) -> TensorType {
    let own = is_token(&input.name);
    let last = input.dims.iter().rposition(|&n| n == -1);
    let dims = input.dims.iter().enumerate().map(|(axis, &n)| {
        if n != -1 {
            return Dim::constant(n);
        }
        if own && last == Some(axis) {
            return Dim::symbol(SEQUENCE);
        }
        if own && axis == 0 {
            return Dim::symbol("B");
        }
        *fresh += 1;
        match *fresh {
            1 => Dim::symbol(first),
            n => Dim::symbol(&format!("d{n}")),
        }
    });
    let shape = Shape::new(dims);
    let dtype: DType = input.dtype;
    TensorType::new(dtype, shape)
}
