//! Ordinary values that are known only when running.
//!
//! While compiling, what depends on run-time text and numbers is not computed but noted: each such value is a
//! [`HostNode`], with the operands that it needs. While the model runs, [`HostRun`] computes the nodes that are asked
//! for, with the same evaluator. A node that tensor code needs becomes a `HostCall` of the graph.

use super::ast::{BinaryOp, ExprId, ExprKind, Name, Span, Tree, Type, UnaryOp};
use super::builtins::tri::ChatPiece;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator, Flow, free, with_stack};
use super::value::{Cell, Closure, Place, StructValue, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The number of a [`HostNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// Where a leaf of host code comes from, and as what.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// A text input: its UTF-8 bytes.
    Text(String),
    /// A list of numbers: an input of the graph, or a value of the graph that `to_vec` reads.
    Numbers(String),
}

/// A value that is known only when running.
#[derive(Clone, Debug)]
pub enum HostNode {
    /// An input, or a tensor that the graph has computed.
    Leaf(Leaf),
    /// An operation on values.
    Applied {
        /// Which.
        applied: Applied,
        /// Its operands; they may hold other nodes.
        operands: Vec<Value>,
        /// Where it stands.
        span: Span,
    },
    /// What a piece of program gives (`None`), or leaves in a variable.
    Fragment {
        /// The piece: fragments of one number run once.
        number: usize,
        /// The variable.
        variable: Option<Arc<str>>,
    },
}

/// A piece of program that runs as a whole.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The piece.
    pub expr: ExprId,
    /// Variables that it may read or change, and what they hold before.
    pub captured: Vec<(Arc<str>, Value)>,
}

/// What is done with the operands of a [`HostNode::Applied`].
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// `x.name`
    Field(Arc<str>),
    /// `x[i]`
    Index,
    /// `x.f(…)`
    Method(Name, Vec<Type>),
    /// `x.f(…)` that changes `x`: the pair of the result and the new `x`.
    Change(Name),
    /// `Type::f(…)`
    Associated(Arc<str>, Name, Vec<Type>),
    /// A function of the program, by its number.
    Function(usize),
    /// `a + b`
    Binary(BinaryOp),
    /// `-a`
    Unary(UnaryOp),
    /// `x as T`
    Cast(Type),
    /// `a..b`; the end is `None` where there is none.
    Range {
        /// Whether the end belongs to it.
        inclusive: bool,
    },
    /// `vec![x; n]`
    Repeat,
    /// `format!`, by its expression.
    Format(ExprId),
}

/// The host code of a program, ready to run: shared between threads.
#[derive(Clone, Debug)]
pub struct HostProgram {
    /// The program.
    pub tree: Arc<Tree>,
    /// Every value that is known only when running.
    pub nodes: Vec<HostNode>,
    /// Pieces of program.
    pub fragments: Vec<Fragment>,
}

impl HostProgram {
    /// The leaves that a value needs, in a fixed order.
    pub fn leaves(&self, value: &Value) -> Vec<Leaf> {
        leaves_of(&self.nodes, &self.fragments, value)
    }

    /// Computes a value from its leaves, with a limit of steps. `vocabulary` gives the id of a token by its exact text.
    ///
    /// # Errors
    /// What went wrong, with its place in the program.
    pub fn run(
        &self,
        value: &Value,
        leaves: &(dyn Fn(&Leaf) -> Option<Value> + Sync),
        vocabulary: &Vocabulary<'_>,
        steps: u64,
    ) -> Result<Value, Diagnostic> {
        let work = || {
            let mut run = HostRun::new(self, leaves);
            run.vocabulary = Some(vocabulary);
            let mut evaluator = Evaluator::new(&self.tree, None, Some(run));
            evaluator.limit_steps(steps);
            let result = evaluator.resolved(value, 0);
            match (result, evaluator.errors.into_iter().next()) {
                (Ok(value), None) => Ok(value),
                (_, Some(d)) => Err(d),
                (Err(Flow::Error(d)), None) => Err(*d),
                (Err(_), None) => Err(Diagnostic::new(Code::Escape, Span::default(), "control left the host function")),
            }
        };
        with_stack(work).unwrap_or_else(|e| {
            Err(Diagnostic::new(Code::Memory, Span::default(), format!("no thread for the program: {e}")))
        })
    }
}

/// The id of a token by its exact text.
pub type Vocabulary<'v> = dyn Fn(&str) -> Option<u32> + Sync + 'v;

/// One run of host functions: what is known so far.
pub(crate) struct HostRun<'t> {
    program: &'t HostProgram,
    /// The vocabulary, where the caller has one.
    pub vocabulary: Option<&'t Vocabulary<'t>>,
    leaves: &'t (dyn Fn(&Leaf) -> Option<Value> + Sync),
    known: HashMap<HostId, Value>,
    fragments: HashMap<usize, HashMap<Option<Arc<str>>, Value>>,
    /// What a chat function has written.
    pub chat: Option<Vec<ChatPiece>>,
}

impl<'t> HostRun<'t> {
    /// Nothing is known yet.
    pub(crate) fn new(program: &'t HostProgram, leaves: &'t (dyn Fn(&Leaf) -> Option<Value> + Sync)) -> Self {
        HostRun { program, vocabulary: None, leaves, known: HashMap::new(), fragments: HashMap::new(), chat: None }
    }
}

/// Most values inside each other that are looked through.
const MOST_NESTED: usize = 256;

/// The nodes inside a value.
pub(crate) fn host_ids(value: &Value, out: &mut Vec<HostId>, depth: usize) {
    ids_in(value, out, depth, &mut HashSet::new());
}

/// [`host_ids`], with the lists that were seen: a list may be in many places.
fn ids_in(value: &Value, out: &mut Vec<HostId>, depth: usize, seen: &mut HashSet<usize>) {
    if depth > MOST_NESTED {
        return;
    }
    match value {
        Value::Host(id) => out.push(*id),
        Value::List(items) | Value::Tuple(items) | Value::Option(Some(items)) => {
            // Plain elements have no nodes, and most lists have those alone.
            let deep = items.iter().any(|v| v.has_parts() || matches!(v, Value::Host(_)));
            if deep && seen.insert(Arc::as_ptr(items) as usize) {
                items.iter().for_each(|v| ids_in(v, out, depth + 1, seen));
            }
        }
        Value::Map(map) if seen.insert(Arc::as_ptr(map) as usize) => {
            map.values().for_each(|(_, v)| ids_in(v, out, depth + 1, seen));
        }
        Value::Struct(of) if seen.insert(Arc::as_ptr(of) as usize) => {
            of.fields.iter().for_each(|(_, v)| ids_in(v, out, depth + 1, seen));
        }
        Value::Closure(closure) if seen.insert(Arc::as_ptr(closure) as usize) => {
            closure.captured.iter().for_each(|(_, cell)| ids_in(&cell.get(), out, depth + 1, seen));
        }
        Value::Ref(place) => ids_in(&place.load(), out, depth + 1, seen),
        Value::Iter(iter) => iter.visit(|v| ids_in(v, out, depth + 1, seen)),
        _ => {}
    }
}

/// The leaves that a value needs, in a fixed order.
pub(crate) fn leaves_of(nodes: &[HostNode], fragments: &[Fragment], value: &Value) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut seen = vec![false; nodes.len()];
    let mut open = Vec::new();
    host_ids(value, &mut open, 0);
    while let Some(id) = open.pop() {
        let at = id.0 as usize;
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        match &nodes[at] {
            HostNode::Leaf(leaf) => {
                if !leaves.contains(leaf) {
                    leaves.push(leaf.clone());
                }
            }
            HostNode::Applied { operands, .. } => operands.iter().for_each(|v| host_ids(v, &mut open, 0)),
            HostNode::Fragment { number, .. } => {
                fragments[*number].captured.iter().for_each(|(_, v)| host_ids(v, &mut open, 0));
            }
        }
    }
    leaves
}

impl Evaluator<'_> {
    /// Whether a value, or part of it, is known only when running.
    pub(crate) fn is_host(&self, value: &Value) -> bool {
        if self.run.is_some() {
            return false;
        }
        match value {
            Value::Host(_) => true,
            Value::List(_)
            | Value::Tuple(_)
            | Value::Struct(_)
            | Value::Option(Some(_))
            | Value::Map(_)
            | Value::Ref(_) => {
                let mut ids = Vec::new();
                host_ids(value, &mut ids, 0);
                !ids.is_empty()
            }
            _ => false,
        }
    }

    /// Notes a node; while running there is none to note.
    pub(crate) fn host_node(&mut self, node: HostNode, span: Span) -> Eval {
        match &mut self.build {
            Some(build) => {
                build.host.push(node);
                Ok(Value::Host(HostId((build.host.len() - 1) as u32)))
            }
            None => {
                Err(Diagnostic::new(Code::RunTimeValue, span, "a value of the graph inside a host function").into())
            }
        }
    }

    /// Notes an operation on values of which some are known only when running.
    pub(crate) fn apply_host(&mut self, applied: Applied, operands: Vec<Value>, span: Span) -> Eval {
        if self.run.is_some() {
            return self.applied(&applied, operands, span);
        }
        let mut frozen = Vec::with_capacity(operands.len());
        for operand in operands {
            frozen.push(self.freeze(operand, span, 0)?);
        }
        self.host_node(HostNode::Applied { applied, operands: frozen, span }, span)
    }

    /// Whether a function may run with the model though it is given the tokenizer: neither it nor a function that it
    /// calls encodes or decodes a text, which belongs to the graph and its driver.
    pub(crate) fn only_looks_up(&self, function: usize) -> bool {
        let mut seen = HashSet::from([function]);
        let mut open = vec![function];
        while let Some(function) = open.pop() {
            let mut found = false;
            free::walk(self.tree, self.tree.functions[function].body, |_, kind| match kind {
                ExprKind::Method { name, .. } => found |= matches!(&*name.text, "encode" | "decode"),
                ExprKind::Path(path, _) => {
                    let Some(last) = path.last() else { return };
                    if let Some(&callee) = self.functions.get(&(None, last.text.clone()))
                        && seen.insert(callee)
                    {
                        open.push(callee);
                    }
                }
                _ => {}
            });
            if found {
                return false;
            }
        }
        true
    }

    /// A piece of program that runs as a whole with the model; its result.
    pub(crate) fn residual(&mut self, id: ExprId) -> Eval {
        let tree = self.tree;
        let span = self.span(id);
        if free::escapes(tree, id) {
            let d = Diagnostic::new(
                Code::RunTimeBranch,
                span,
                "this depends on what is known only when running, and leaves the code around it",
            );
            return Err(d
                .help("move the code into a function on text and numbers alone; it then runs with the model")
                .into());
        }
        self.check_methods(id);
        let inside = free::bound_inside(tree, id);
        let mut names = free::read(tree, id);
        let changed = free::changed(tree, id);
        names.extend(changed.iter().cloned());
        let mut captured = Vec::new();
        for name in names {
            let Some(cell) = self.lookup(&name).cloned() else { continue };
            match self.freeze(cell.get(), span, 0) {
                Ok(value) => captured.push((name, value)),
                // A name that the piece binds itself need not be this variable.
                Err(_) if inside.contains(&name) => {}
                Err(Flow::Error(mut d)) if d.code == Code::RunTimeValue => {
                    let what = self.deref(cell.get());
                    d.code = match &tree.expr(id).kind {
                        ExprKind::For { .. } | ExprKind::While { .. } | ExprKind::Loop { .. } => Code::RunTimeLoop,
                        _ => Code::RunTimeBranch,
                    };
                    d.message = format!(
                        "this depends on text or numbers that are known only when running, and reads `{name}`, {}",
                        what.kind()
                    );
                    return Err(Flow::Error(d));
                }
                Err(flow) => return Err(flow),
            }
        }
        let Some(build) = &mut self.build else { return Err(Flow::Poisoned) };
        build.fragments.push(Fragment { expr: id, captured });
        let number = build.fragments.len() - 1;
        for name in changed {
            if let Some(cell) = self.lookup(&name).cloned() {
                let value = self.host_node(HostNode::Fragment { number, variable: Some(name) }, span)?;
                match cell.get() {
                    Value::Ref(place) => drop(place.with(|slot| *slot = value)),
                    _ => cell.set(value),
                }
            }
        }
        self.host_node(HostNode::Fragment { number, variable: None }, span)
    }

    /// A value as host code may keep it: no tensors, and closures with what their variables hold now.
    fn freeze(&mut self, value: Value, span: Span, depth: usize) -> Eval {
        if depth > MOST_NESTED {
            return Err(Diagnostic::new(Code::Nesting, span, "this value is nested too deeply").into());
        }
        self.look(1, span)?;
        let parts = |e: &mut Self, items: &[Value]| -> Eval<Vec<Value>> {
            items.iter().map(|v| e.freeze(v.clone(), span, depth + 1)).collect()
        };
        let deep = |items: &[Value]| items.iter().any(|v| !is_plain(v));
        Ok(match &value {
            Value::List(items) if deep(items) => Value::list(parts(self, items)?),
            Value::Tuple(items) if deep(items) => Value::tuple(parts(self, items)?),
            Value::Option(Some(items)) if deep(items) => {
                let mut inner = parts(self, items)?;
                Value::some(inner.pop().unwrap_or(Value::Unit))
            }
            Value::Struct(of) => {
                let mut fields = Vec::with_capacity(of.fields.len());
                for (name, field) in &of.fields {
                    fields.push((name.clone(), self.freeze(field.clone(), span, depth + 1)?));
                }
                Value::Struct(Arc::new(StructValue { name: of.name.clone(), variant: of.variant.clone(), fields }))
            }
            Value::Closure(closure) => {
                let names = free::read(self.tree, closure.body);
                let mut captured = Vec::new();
                for (name, cell) in closure.captured.iter().filter(|(n, _)| names.contains(n)) {
                    if let Ok(value) = self.freeze(cell.get(), span, depth + 1) {
                        captured.push((name.clone(), Cell::new(value)));
                    }
                }
                Value::Closure(Arc::new(Closure { params: closure.params.clone(), body: closure.body, captured }))
            }
            Value::Ref(place) => self.freeze(place.load(), span, depth + 1)?,
            // Each run walks over a copy.
            Value::Iter(iter) => {
                Value::Iter(self.copy_iter(iter, span, depth, &mut |e, v| e.freeze(v, span, depth + 1))?)
            }
            Value::Map(map) if map.values().any(|(_, v)| !is_plain(v)) => {
                let mut out = (**map).clone();
                for (_, slot) in out.values_mut() {
                    *slot = self.freeze(slot.clone(), span, depth + 1)?;
                }
                Value::Map(Arc::new(out))
            }
            Value::Input(input) => self.host_input(*input, span)?,
            Value::Tensor(_)
            | Value::TopK { .. }
            | Value::Weights
            | Value::Tokens
            | Value::Generated
            | Value::Pending(_) => {
                let d = Diagnostic::new(
                    Code::RunTimeValue,
                    span,
                    format!("{} in code on run-time text and numbers", value.kind()),
                );
                return Err(d.help("compute on tensors outside of it; `to_vec` gives the numbers of one").into());
            }
            Value::Sampled(_) | Value::Stop(_) | Value::Counter(_) | Value::Decoded | Value::Tri(_) => {
                return Err(self.mismatch(&value, "text or numbers", span));
            }
            _ => value,
        })
    }

    /// A node's value, while running.
    pub(crate) fn resolve(&mut self, id: HostId) -> Eval {
        let value = self.resolve_once(id)?;
        // Whoever walks over a node's iterator walks over a copy.
        match &value {
            Value::Iter(iter) => Ok(Value::Iter(self.copy_iter(iter, Span::default(), 0, &mut |_, value| Ok(value))?)),
            _ => Ok(value),
        }
    }

    fn resolve_once(&mut self, id: HostId) -> Eval {
        let Some(run) = &self.run else { return Ok(Value::Host(id)) };
        if let Some(value) = run.known.get(&id) {
            return Ok(value.clone());
        }
        let program = run.program;
        let value = match &program.nodes[id.0 as usize] {
            HostNode::Leaf(leaf) => match (run.leaves)(leaf) {
                Some(value) => value,
                None => {
                    let d = Diagnostic::new(Code::RunTimeValue, Span::default(), format!("{leaf:?} was not given"));
                    return Err(d.into());
                }
            },
            HostNode::Applied { applied, operands, span } => {
                let mut values = Vec::with_capacity(operands.len());
                for operand in operands {
                    values.push(self.resolved(operand, 0)?);
                }
                self.applied(applied, values, *span)?
            }
            HostNode::Fragment { number, variable } => {
                let done = self.run.as_ref().is_some_and(|r| r.fragments.contains_key(number));
                if !done {
                    self.run_fragment(*number)?;
                }
                let results = self.run.as_ref().and_then(|r| r.fragments.get(number));
                match results.and_then(|r| r.get(variable)) {
                    Some(value) => value.clone(),
                    None => return Err(Flow::Poisoned),
                }
            }
        };
        if let Some(run) = &mut self.run {
            run.known.insert(id, value.clone());
        }
        Ok(value)
    }

    fn run_fragment(&mut self, number: usize) -> Eval<()> {
        let Some(run) = &self.run else { return Ok(()) };
        let fragment = &run.program.fragments[number];
        let mut vars = Vec::with_capacity(fragment.captured.len());
        for (name, value) in &fragment.captured {
            vars.push((name.clone(), Cell::new(self.resolved(value, 0)?)));
        }
        self.frames.push(super::eval::Frame { vars: vars.clone() });
        let result = self.eval(fragment.expr);
        self.frames.pop();
        let mut results: HashMap<Option<Arc<str>>, Value> =
            vars.into_iter().map(|(name, cell)| (Some(name), cell.get())).collect();
        results.insert(None, result?);
        if let Some(run) = &mut self.run {
            run.fragments.insert(number, results);
        }
        Ok(())
    }

    /// A value with every node inside it computed.
    pub(crate) fn resolved(&mut self, value: &Value, depth: usize) -> Eval {
        if depth > MOST_NESTED {
            return Err(Diagnostic::new(Code::Nesting, Span::default(), "a value is nested too deeply").into());
        }
        self.look(1, Span::default())?;
        let mut ids = Vec::new();
        host_ids(value, &mut ids, 0);
        if ids.is_empty() && !matches!(value, Value::Iter(_)) {
            return Ok(value.clone());
        }
        Ok(match value {
            Value::Host(id) => self.resolve(*id)?,
            Value::List(items) => Value::list(self.resolved_all(items, depth)?),
            Value::Tuple(items) => Value::tuple(self.resolved_all(items, depth)?),
            Value::Option(Some(items)) => Value::some(self.resolved_all(items, depth)?.pop().unwrap_or(Value::Unit)),
            Value::Struct(of) => {
                let mut fields = Vec::with_capacity(of.fields.len());
                for (name, field) in &of.fields {
                    fields.push((name.clone(), self.resolved(field, depth + 1)?));
                }
                Value::Struct(Arc::new(StructValue { name: of.name.clone(), variant: of.variant.clone(), fields }))
            }
            Value::Closure(closure) => {
                let mut captured = Vec::with_capacity(closure.captured.len());
                for (name, cell) in &closure.captured {
                    captured.push((name.clone(), Cell::new(self.resolved(&cell.get(), depth + 1)?)));
                }
                Value::Closure(Arc::new(Closure { params: closure.params.clone(), body: closure.body, captured }))
            }
            Value::Map(map) => {
                let mut out = (**map).clone();
                for (_, slot) in out.values_mut() {
                    *slot = self.resolved(slot, depth + 1)?;
                }
                Value::Map(Arc::new(out))
            }
            Value::Iter(iter) => {
                Value::Iter(self.copy_iter(iter, Span::default(), depth, &mut |e, v| e.resolved(&v, depth + 1))?)
            }
            other => other.clone(),
        })
    }

    fn resolved_all(&mut self, items: &[Value], depth: usize) -> Eval<Vec<Value>> {
        items.iter().map(|v| self.resolved(v, depth + 1)).collect()
    }

    /// An operation on known values.
    fn applied(&mut self, applied: &Applied, mut operands: Vec<Value>, span: Span) -> Eval {
        let spans = vec![span; operands.len()];
        let first = |operands: &[Value]| operands.first().cloned().unwrap_or(Value::Poison);
        let second = |operands: &[Value]| operands.get(1).cloned().unwrap_or(Value::Poison);
        match applied {
            Applied::Field(name) => {
                let value = first(&operands);
                match (&value, name.parse::<usize>()) {
                    (Value::List(items), Ok(n)) if n < items.len() => Ok(items[n].clone()),
                    _ => self.field(&value, &Name { text: name.clone(), span }, span),
                }
            }
            Applied::Index => self.index(&first(&operands), &second(&operands), span, span, span),
            Applied::Method(name, types) => {
                let value = operands.remove(0);
                self.method_of(value, name, types, operands, span).map(|(result, _)| result)
            }
            Applied::Change(name) => {
                let value = operands.remove(0);
                let (result, after) = self.method_of(value, name, &[], operands, span)?;
                Ok(Value::tuple(vec![result, after]))
            }
            Applied::Associated(owner, name, types) => self.call_builtin(owner, name, types, operands, &spans, span),
            Applied::Function(index) => self.call_function(*index, operands, span, span),
            Applied::Binary(op) => match (op, first(&operands), second(&operands)) {
                (BinaryOp::And, Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(a && b)),
                (BinaryOp::Or, Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(a || b)),
                (_, a, b) => self.binary(*op, a, b, span),
            },
            Applied::Unary(op) => self.unary(*op, first(&operands), span),
            Applied::Cast(ty) => self.cast(first(&operands), ty, span),
            Applied::Range { inclusive } => self.range_of(&first(&operands), &second(&operands), *inclusive, span),
            Applied::Repeat => {
                let count = self.known_size(&second(&operands), span)?;
                self.make(count, span)?;
                Ok(Value::list(vec![first(&operands); count]))
            }
            Applied::Format(id) => match &self.tree.expr(*id).kind {
                ExprKind::Macro { pieces, .. } => self.format_values(pieces, &operands, span),
                _ => Err(Flow::Poisoned),
            },
        }
    }

    /// A method of a value that stands nowhere else: the result, and what the value has become.
    fn method_of(
        &mut self,
        value: Value,
        name: &Name,
        types: &[Type],
        args: Vec<Value>,
        span: Span,
    ) -> Eval<(Value, Value)> {
        let place = Place::variable(Cell::new(value.clone()));
        let spans = vec![span; args.len()];
        let args = super::builtins::Args::new(None, args, &spans, name.span, span);
        let result = self.method_on(place.clone(), value, name, types, args, span, span)?;
        Ok((result, place.load()))
    }
}

/// Whether a value is no container and no closure.
fn is_plain(value: &Value) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Char(_)
            | Value::Str(_)
            | Value::Unit
            | Value::Host(_)
    )
}
