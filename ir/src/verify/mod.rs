//! The verifier: what every graph must satisfy before it is lowered.
//!
//! Rules:
//!
//! 1. *Acyclic*: no operation depends on its own result.
//! 2. *Outputs*: there is at least one, and each names a value that exists.
//! 3. *Names*: every input and weight node stands under its name in the graph's table, with one
//!    result and no operands.
//! 4. *Operands*: the operand numbers of a node are 0, 1, 2 … without gap or repetition, and each
//!    operand is a result that its producer has.
//! 5. *Arity*: the number of operands and of results fits the operation.
//! 6. *Rule*: the payload is possible, and shapes and dtypes of the operands fit the operation.
//! 7. *Types*: the recorded result types equal those that the operation gives.
//! 8. *Dimensions*: those of inputs and weights are not negative, their symbols are identifiers,
//!    and no value has more than [`MAX_RANK`] of them.
//!
//! Every violation is reported, each on its own node: rules 5 to 7 judge a node by the recorded
//! types of its operands, so that one fault does not spread. Names of values cannot clash: a value
//! is an edge here, and names are notes for people.

mod cycles;

use crate::dim::MAX_SYMBOL;
use crate::ops::MAX_RANK;
use crate::text::{Labels, Line, snippet};
use crate::{Graph, NodeId, NodeKind, Op, OpInfo, TensorType, Value};
use std::fmt;
use std::ops::Range;

/// A graph that satisfies every rule of [this module](self): what lowering demands.
#[derive(Clone, Debug)]
pub struct Verified(Graph);

impl Verified {
    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.0
    }

    /// The graph, to be changed; it must be verified again.
    pub fn into_inner(self) -> Graph {
        self.0
    }
}

impl AsRef<Graph> for Verified {
    fn as_ref(&self) -> &Graph {
        &self.0
    }
}

/// Checks every rule. Iterative, linear in nodes and edges but for the order of the walk.
///
/// # Errors
/// All violations.
pub fn verify(graph: Graph) -> Result<Verified, VerifyError> {
    let violations = violations(&graph);
    if violations.is_empty() { Ok(Verified(graph)) } else { Err(VerifyError { violations }) }
}

/// Which rule a violation is about; numbered at the head of [the module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A value depends on itself.
    Acyclic,
    /// An output is missing or names no value.
    Outputs,
    /// The tables of inputs and weights do not match the nodes.
    Names,
    /// Operand numbers have a gap or a repetition, or an operand does not exist.
    Operands,
    /// Too few or too many operands or results.
    Arity,
    /// Payload, shapes or dtypes do not fit the operation.
    Rule,
    /// A recorded type is not the inferred one.
    Types,
    /// A dimension is impossible.
    Dimensions,
}

impl Rule {
    /// The name that messages lead with.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Acyclic => "acyclic",
            Rule::Outputs => "outputs",
            Rule::Names => "names",
            Rule::Operands => "operands",
            Rule::Arity => "arity",
            Rule::Rule => "rule",
            Rule::Types => "types",
            Rule::Dimensions => "dimensions",
        }
    }
}

/// One violation, with what is needed to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The node; `None` for a fault of the graph as a whole.
    pub node: Option<NodeId>,
    /// The operation, or `input`, `weight`, `output`.
    pub op: &'static str,
    /// Labels of the results, or the name of the output.
    pub names: Vec<String>,
    /// What is wrong and what would be right.
    pub message: String,
    /// The statement of the text form; empty where there is none.
    pub line: String,
    /// The offending part of `line`, in bytes.
    pub part: Range<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule.name())?;
        if let Some(node) = self.node {
            write!(f, "node {} ", node.index())?;
        }
        f.write_str(self.op)?;
        if !self.names.is_empty() {
            const SHOWN: usize = 4;
            write!(f, " {}", self.names[..self.names.len().min(SHOWN)].join(", "))?;
            if self.names.len() > SHOWN {
                write!(f, " and {} more", self.names.len() - SHOWN)?;
            }
        }
        write!(f, ": {}", self.message)?;
        if !self.line.is_empty() {
            write!(f, "\n{}", snippet(&self.line, self.part.clone(), "    "))?;
        }
        Ok(())
    }
}

/// Every violation of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct VerifyError {
    /// The violations: those of the graph as a whole first, then in the order of the text form.
    pub violations: Vec<Violation>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.violations.len();
        write!(f, "the graph is not valid, {n} violation{}:", if n == 1 { "" } else { "s" })?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}

/// A fault before it is put into words for the reader.
struct Fault {
    rule: Rule,
    message: String,
    part: Part,
}

/// Which part of a statement is at fault.
enum Part {
    Op,
    List,
    Operand(usize),
    Attribute(&'static str),
    Result(usize),
    Type(usize),
}

fn violations(graph: &Graph) -> Vec<Violation> {
    let mut faults: Vec<(NodeId, Fault)> = Vec::new();
    cycles::cycles(graph, &mut faults);
    for id in graph.nodes() {
        check_node(graph, id, &mut |fault| faults.push((id, fault)));
    }
    let bad_outputs: Vec<_> = graph.outputs().filter(|(_, v)| graph.try_ty(*v).is_err()).collect();
    let none = graph.outputs().next().is_none();
    if faults.is_empty() && bad_outputs.is_empty() && !none {
        return Vec::new();
    }
    let labels = Labels::new(graph);
    let mut out = Vec::new();
    if none {
        out.push(Violation {
            rule: Rule::Outputs,
            node: None,
            op: "graph",
            names: Vec::new(),
            message: "has no output; name at least one value as an output".into(),
            line: String::new(),
            part: 0..0,
        });
    }
    for (name, value) in bad_outputs {
        let mut line = String::new();
        labels.output(name, value, &mut line);
        let line = line.trim_start().to_owned();
        let part = line.rfind('%').unwrap_or(0)..line.len();
        out.push(Violation {
            rule: Rule::Outputs,
            node: None,
            op: "output",
            names: vec![name.to_owned()],
            message: format!("value {}.{} does not exist", value.node.index(), value.port),
            line,
            part,
        });
    }
    let mut rank = vec![0u32; graph.node_bound()];
    for (i, id) in labels.order().iter().enumerate() {
        rank[id.index()] = i as u32;
    }
    faults.sort_by_key(|(id, _)| rank[id.index()]);
    let mut last: Option<(NodeId, Line)> = None;
    for (id, fault) in faults {
        let line = match last.take() {
            Some((had, line)) if had == id => line,
            _ => labels.line(graph, id),
        };
        out.push(describe(graph, &labels, id, fault, &line));
        last = Some((id, line));
    }
    out
}

fn describe(graph: &Graph, labels: &Labels, id: NodeId, fault: Fault, line: &Line) -> Violation {
    let part = match fault.part {
        Part::Op => None,
        Part::List => Some(line.list.clone()),
        Part::Operand(i) => line.operands.get(i).cloned(),
        Part::Attribute(name) => line.attributes.iter().find(|(n, _)| *n == name).map(|(_, r)| r.clone()),
        Part::Result(i) => line.results.get(i).cloned(),
        Part::Type(i) => line.types.get(i).cloned(),
    }
    .unwrap_or_else(|| line.op.clone());
    // What `snippet` can show of a long line; the rest need not be kept per violation.
    let (text, part) = clip(&line.text, part);
    Violation {
        rule: fault.rule,
        node: Some(id),
        op: kind_name(graph, id),
        names: graph.results(id).take(16).map(|v| labels.label(v)).collect(),
        message: fault.message,
        line: text,
        part,
    }
}

/// At most 2000 bytes of `line` around `part`.
fn clip(line: &str, part: Range<usize>) -> (String, Range<usize>) {
    const AROUND: usize = 1000;
    if line.len() <= 2 * AROUND {
        return (line.to_owned(), part);
    }
    let floor = |at: usize| (0..=at.min(line.len())).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
    let from = floor(part.start.saturating_sub(AROUND));
    let to = floor(part.start.saturating_add(AROUND));
    (line[from..to].to_owned(), part.start - from..part.end.min(to) - from)
}

fn kind_name(graph: &Graph, id: NodeId) -> &'static str {
    match &graph.node(id).kind {
        NodeKind::Input(_) => "input",
        NodeKind::Weight(_) => "weight",
        NodeKind::Op(op) => op.name(),
    }
}

fn check_node(graph: &Graph, id: NodeId, report: &mut dyn FnMut(Fault)) {
    let node = graph.node(id);
    match &node.kind {
        NodeKind::Input(name) => {
            check_source(graph, id, graph.input_named(name), name, "input", report);
        }
        NodeKind::Weight(name) => {
            check_source(graph, id, graph.weight_named(name), name, "weight", report);
        }
        NodeKind::Op(op) => check_op(graph, id, op, &node.results, report),
    }
}

/// An input or a weight: rules 3 and 8.
fn check_source(
    graph: &Graph,
    id: NodeId,
    listed: Option<Value>,
    name: &str,
    kind: &str,
    report: &mut dyn FnMut(Fault),
) {
    let node = graph.node(id);
    if listed.map(|v| v.node) != Some(id) {
        report(Fault {
            rule: Rule::Names,
            message: format!("another {kind} stands under the name `{name}`"),
            part: Part::Op,
        });
    }
    if node.results.len() != 1 || !graph.numbered_operands(id).is_empty() {
        report(Fault {
            rule: Rule::Names,
            message: format!(
                "has {} results and {} operands, expected 1 and 0",
                node.results.len(),
                graph.numbered_operands(id).len()
            ),
            part: Part::Op,
        });
    }
    for (port, ty) in node.results.iter().enumerate() {
        let message = match impossible(ty) {
            Some(message) => message,
            None => continue,
        };
        report(Fault { rule: Rule::Dimensions, message, part: Part::Type(port) });
    }
}

/// What is impossible about the dimensions of a source, if anything is.
fn impossible(ty: &TensorType) -> Option<String> {
    if ty.shape.rank() > MAX_RANK {
        return Some(format!("{} dimensions, at most {MAX_RANK} are possible", ty.shape.rank()));
    }
    for dim in ty.shape.dims() {
        if dim.as_const().is_some_and(|n| n < 0) {
            return Some(format!(
                "the dimension {dim} is negative; a dimension that is not known is a symbol, for example `S`"
            ));
        }
        if let Some(symbol) = dim.symbols().into_iter().find(|s| !is_symbol(s)) {
            return Some(format!(
                "the symbol `{symbol}` is no identifier; use at most {MAX_SYMBOL} letters, digits, `_` and `.`"
            ));
        }
    }
    None
}

/// What [`Dim`](crate::Dim) reads as a symbol.
fn is_symbol(text: &str) -> bool {
    text.len() <= MAX_SYMBOL
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '?')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'?'))
}

/// An operation: rules 4 to 7.
fn check_op(graph: &Graph, id: NodeId, op: &Op, recorded: &[TensorType], report: &mut dyn FnMut(Fault)) {
    let operands = graph.numbered_operands(id);
    let mut sound = true;
    let mut types = Vec::with_capacity(operands.len());
    for (i, (number, value)) in operands.iter().enumerate() {
        if *number as usize != i && sound {
            sound = false;
            let numbers: Vec<u32> = operands.iter().take(16).map(|(n, _)| *n).collect();
            report(Fault {
                rule: Rule::Operands,
                message: format!("operand numbers are {numbers:?}, expected 0, 1, 2 …"),
                part: Part::Operand(i),
            });
        }
        match graph.try_ty(*value) {
            Ok(ty) => types.push(ty.clone()),
            Err(_) => {
                sound = false;
                report(Fault {
                    rule: Rule::Operands,
                    message: format!(
                        "operand {number} is result {} of node {}, which has {}",
                        value.port,
                        value.node.index(),
                        graph.node(value.node).results.len()
                    ),
                    part: Part::Operand(i),
                });
            }
        }
    }
    let info = op.info();
    if let Err(error) = info.check_arity(operands.len()) {
        report(Fault { rule: Rule::Arity, message: error.0, part: Part::List });
        sound = false;
    }
    let expected = op.result_count();
    if expected != recorded.len() {
        report(Fault {
            rule: Rule::Arity,
            message: format!("gives {expected} results, {} are recorded", recorded.len()),
            part: Part::Result(0),
        });
        sound = false;
    }
    if !sound {
        return;
    }
    match op.infer(&types) {
        Err(error) => report(Fault { rule: Rule::Rule, part: blame(&error.0, info, operands.len()), message: error.0 }),
        Ok(inferred) => {
            for (port, (ours, theirs)) in inferred.iter().zip(recorded).enumerate() {
                if ours != theirs {
                    report(Fault {
                        rule: Rule::Types,
                        message: format!("the recorded type is {theirs}, the operation gives {ours}"),
                        part: Part::Type(port),
                    });
                }
            }
        }
    }
}

/// The part that a rule's message speaks of: the first word that names an operand or a field. Only
/// the caret depends on it.
fn blame(message: &str, info: &'static OpInfo, count: usize) -> Part {
    let form = info.form(count).unwrap_or_default();
    let mut words = message.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).peekable();
    while let Some(word) = words.next() {
        // The article is no operand.
        if word == "a" && !matches!(words.peek(), Some(&("has" | "is"))) {
            continue;
        }
        let mut names = form.split_whitespace();
        if let Some(i) = names.position(|n| n.trim_end_matches('?') == word) {
            return Part::Operand(i);
        }
        if let Some(field) = info.fields.iter().find(|f| f.name == word) {
            return Part::Attribute(field.name);
        }
    }
    Part::Op
}

#[cfg(test)]
mod tests;
