//! The graph under construction, and how values become operands of its operations.

use super::ast::{BinaryOp, Span, UnaryOp};
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator, Flow};
use super::generation::Generation;
use super::host::{Fragment, HostId, HostNode, Leaf};
use super::value::{ConfigTable, Value};
use crate::families::decoder::DecoderSpec;
use crate::families::{TensorShapes, dtype_of};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tallow_format::Config;
use tallow_ir::ops::{Comparison, Connective, Real, Text};
use tallow_ir::{DType, Dim, Graph, IrError, Op, SEQUENCE, Shape, TensorType, Value as Node};

/// Most nodes of the graph under construction.
const MAX_NODES: usize = 1_500_000;

/// Everything that compiling a program collects.
pub struct Build<'t> {
    /// Operations so far: all graphs of the module in one.
    pub graph: Graph,
    /// The tensor index; `None` where nothing is known of the weights.
    pub tensors: Option<&'t dyn TensorShapes>,
    /// The config as it was read.
    pub config: &'t Config,
    /// The config as values.
    pub root: Arc<ConfigTable>,
    /// Inputs of the program.
    pub inputs: Vec<Input>,
    /// Values that are known only when running.
    pub host: Vec<HostNode>,
    /// Pieces of program that run with the model.
    pub fragments: Vec<Fragment>,
    /// The weight that made a value by a matrix product.
    pub projections: HashMap<Node, String>,
    /// Values that a batch norm made by itself, and its name.
    pub batch_norms: HashMap<Node, String>,
    /// Where the operation of a node stands in the source.
    pub spans: HashMap<usize, Span>,
    /// The token input, once there is one.
    pub tokens: Option<Node>,
    /// Tokens that are sampled.
    pub sampled: Vec<Sampled>,
    /// The sampled token that is decoded.
    pub decoded: Option<usize>,
    /// Last rows, and what they are the last row of.
    pub last_rows: HashMap<Node, Node>,
    /// Logits of which some tokens are never taken: what they are without that, and which.
    pub masks: HashMap<Node, (Node, Masks)>,
    /// Durations, and the row of each frame that they make.
    pub expansions: HashMap<Node, Node>,
    /// A value with a dimension of each size that was looked for, and which dimension.
    pub carriers: HashMap<Dim, (Node, usize)>,
    /// The loop over generated tokens.
    pub generation: Option<Generation>,
    /// The decoder that the config describes, once it is asked for.
    pub decoder: Option<Arc<DecoderSpec>>,
    /// What `.tri` needs to know of values.
    pub roles: super::builtins::tri::Roles,
    /// Dotted paths of the config keys that were asked for.
    pub read_keys: BTreeSet<String>,
    /// Things worth telling.
    pub notes: Vec<String>,
}

/// An input of the program.
#[derive(Clone, Debug)]
pub struct Input {
    /// The parameter.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
    /// Its value in the graph, once its shape is settled.
    pub node: Option<Node>,
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A text, which host code reads as bytes.
    Text,
    /// A tensor whose shape follows from its first use.
    Tensor,
    /// A list of real numbers, `[N]`.
    Numbers,
    /// A list of ids, `[S]`.
    Ids,
}

/// Ids that sampling never takes, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// At any place.
    pub always: Vec<u32>,
    /// As the first token that is generated.
    pub first: Vec<u32>,
}

/// A token that is sampled from logits.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The logits, of all positions where the program takes the last.
    pub logits: Node,
    /// What the program samples from.
    pub row: Node,
    /// Where.
    pub span: Span,
    /// How.
    pub how: super::module::Sampling,
    /// What is never taken.
    pub masks: Masks,
    /// The operation, where tensor code reads the token.
    pub node: Option<Node>,
}

impl<'t> Build<'t> {
    /// Nothing yet.
    pub fn new(config: &'t Config, root: Arc<ConfigTable>, tensors: Option<&'t dyn TensorShapes>) -> Self {
        Build {
            graph: Graph::new(),
            tensors,
            config,
            root,
            inputs: Vec::new(),
            host: Vec::new(),
            fragments: Vec::new(),
            projections: HashMap::new(),
            batch_norms: HashMap::new(),
            spans: HashMap::new(),
            tokens: None,
            sampled: Vec::new(),
            decoded: None,
            last_rows: HashMap::new(),
            masks: HashMap::new(),
            expansions: HashMap::new(),
            carriers: HashMap::new(),
            generation: None,
            decoder: None,
            roles: super::builtins::tri::Roles::default(),
            read_keys: BTreeSet::new(),
            notes: Vec::new(),
        }
    }
}

impl<'t> Evaluator<'t> {
    /// The build; host functions have none.
    pub(crate) fn build(&mut self, span: Span) -> Eval<&mut Build<'t>> {
        match &mut self.build {
            Some(build) => Ok(build),
            None => Err(Diagnostic::new(Code::RunTimeValue, span, "tensors and weights inside a host function")
                .help("pass text and numbers alone to functions that work on run-time text")
                .into()),
        }
    }

    /// Adds an operation with one result.
    pub(crate) fn op(&mut self, op: Op, operands: &[Node], span: Span) -> Eval<Node> {
        match self.ops(op, operands, span)?.as_slice() {
            [one] => Ok(*one),
            _ => Err(Diagnostic::new(Code::Shape, span, "an operation of several results where one is needed").into()),
        }
    }

    /// Adds an operation.
    pub(crate) fn ops(&mut self, op: Op, operands: &[Node], span: Span) -> Eval<Vec<Node>> {
        let build = self.build(span)?;
        if build.graph.len() >= MAX_NODES {
            let message = format!("more than {MAX_NODES} operations are made");
            let d = Diagnostic::new(Code::Steps, span, message).label("here the limit was reached");
            return self.abort(d.help("a loop over tensors may have no end"));
        }
        let build = self.build(span)?;
        match build.graph.op_many(op, operands) {
            Ok(results) => {
                if let Some(first) = results.first() {
                    build.spans.insert(first.node.index(), span);
                }
                Ok(results)
            }
            Err(error) => Err(self.rule(error, operands, span)),
        }
    }

    /// An error of an operation's rule, with the types of the operands.
    pub(crate) fn rule(&self, error: IrError, operands: &[Node], span: Span) -> Flow {
        let message = match &error {
            IrError::Rule { op, source, .. } => format!("{op}: {source}"),
            other => other.to_string(),
        };
        let d = Diagnostic::new(Code::Shape, span, message.trim_end_matches('.'));
        let types: Vec<String> = match &self.build {
            Some(build) => {
                operands.iter().filter_map(|&v| build.graph.try_ty(v).ok()).map(ToString::to_string).collect()
            }
            None => Vec::new(),
        };
        match types.len() {
            0 => d.into(),
            1 => d.label(format!("the operand is {}", types[0])).into(),
            _ => d.label(format!("the operands are {}", types.join(", "))).into(),
        }
    }

    /// The type of a value of the graph.
    pub(crate) fn ty(&self, node: Node) -> TensorType {
        match &self.build {
            Some(build) => build.graph.try_ty(node).cloned().unwrap_or_else(|_| TensorType::f32(Shape::default())),
            None => TensorType::f32(Shape::default()),
        }
    }

    /// The dimensions of a value.
    pub(crate) fn dims(&self, node: Node) -> Vec<Dim> {
        self.ty(node).shape.dims().to_vec()
    }

    /// Gives a tensor without a name that of a variable, with the rounds of the loops around it:
    /// `layer3.q` in round 3.
    pub(crate) fn name_value(&mut self, name: &str, value: &Value) {
        let (Value::Tensor(node), Some(build)) = (value, &mut self.build) else { return };
        if build.graph.name_of(*node).is_some() || name.starts_with('_') {
            return;
        }
        let rounds: Vec<String> = self.rounds.iter().map(i128::to_string).collect();
        build
            .graph
            .name(*node, if rounds.is_empty() { name.to_owned() } else { format!("layer{}.{name}", rounds.join(".")) });
    }

    /// Whether tensor code takes a value as a tensor.
    pub(crate) fn is_tensor(&self, value: &Value) -> bool {
        match value {
            Value::Tensor(_) | Value::Input(_) => true,
            Value::Ref(place) => self.is_tensor(&place.load()),
            _ => false,
        }
    }

    /// A value as an operand. Numbers and lists of numbers become constants, what is known only when running a
    /// call of the host.
    #[allow(
        clippy::wrong_self_convention,
        reason = "`to` says what the value becomes; a call may be added to the graph"
    )]
    pub(crate) fn to_node(&mut self, value: &Value, span: Span) -> Eval<Node> {
        match value {
            Value::Tensor(node) => Ok(*node),
            Value::Ref(place) => self.to_node(&place.load(), span),
            Value::Input(input) => match self.build(span)?.inputs[*input].node {
                Some(node) => Ok(node),
                None => {
                    let name = self.build(span)?.inputs[*input].name.clone();
                    let d = Diagnostic::new(
                        Code::InputShape,
                        span,
                        format!("the shape of the input `{name}` is not known here"),
                    );
                    Err(d
                        .label("the first use must tell it")
                        .help(format!("say it before anything else: `let {name} = {name}.reshape([…])`, -1 for a size known only when running"))
                        .into())
                }
            },
            Value::Int(n) => self.filled(DType::I64, &[], vec![n.value as f32], span),
            Value::Float(x) => self.filled(DType::F32, &[], vec![*x as f32], span),
            Value::Bool(b) => self.filled(DType::Bool, &[], vec![f32::from(u8::from(*b))], span),
            Value::List(items) if items.iter().any(|v| self.is_host(v)) => self.host_tensor(value, None, 1, span),
            // The tokens of a loop may be written `&[next]`.
            Value::List(items) if matches!(items.as_slice(), [Value::Counter(_) | Value::Sampled(_)]) => {
                self.to_node(&items[0], span)
            }
            Value::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                let mut dtype = DType::I64;
                for item in items.iter() {
                    match self.deref(item.clone()) {
                        Value::Int(n) => values.push(n.value as f32),
                        Value::Float(x) => {
                            dtype = DType::F32;
                            values.push(x as f32);
                        }
                        other => return Err(self.mismatch(&other, "a number", span)),
                    }
                }
                let shape = [values.len() as i64];
                self.filled(dtype, &shape, values, span)
            }
            Value::Size(dim) => self.size_number(dim, span),
            Value::Sampled(sampled) => self.sampled_node(*sampled, span),
            Value::Counter(counter) => self.counter_node(*counter, span),
            Value::Tokens => self.token_input(span),
            Value::Host(_) => self.host_tensor(value, None, 0, span),
            other => Err(self.mismatch(other, "a tensor", span)),
        }
    }

    /// A constant tensor; one value fills it.
    pub(crate) fn filled(&mut self, dtype: DType, shape: &[i64], values: Vec<f32>, span: Span) -> Eval<Node> {
        if values.is_empty() {
            return Err(Diagnostic::new(Code::Shape, span, "a tensor of an empty list").into());
        }
        let first = values[0];
        let values = if values.iter().all(|v| v.to_bits() == first.to_bits()) { vec![first] } else { values };
        if dtype == DType::I64
            && let Some(v) = values.iter().find(|v| v.abs() >= 16_777_216.0)
        {
            let d =
                Diagnostic::new(Code::Arithmetic, span, format!("{v} is past the whole numbers that a constant holds"));
            return Err(d.into());
        }
        let values = values.into_iter().map(Real::from).collect();
        self.op(Op::Constant { dtype, shape: shape.to_vec(), values }, &[], span)
    }

    /// A value that is known only when running as a tensor of `rank` dimensions (whose sizes the call tells).
    pub(crate) fn host_tensor(&mut self, value: &Value, dtype: Option<DType>, rank: usize, span: Span) -> Eval<Node> {
        let node = match value {
            Value::Host(id) => *id,
            other => match self.apply_host(
                super::host::Applied::Field(Arc::from("0")),
                vec![Value::tuple(vec![other.clone()])],
                span,
            )? {
                Value::Host(id) => id,
                _ => return Err(self.mismatch(other, "a tensor", span)),
            },
        };
        let operands = self.host_operands(node, span)?;
        let dtype = dtype.unwrap_or(DType::F32);
        let function = Text::new(host_name(node)).map_err(|e| Flow::from(Diagnostic::new(Code::Shape, span, e)))?;
        self.op(Op::HostCall { function, dtype, shape: vec![-1; rank] }, &operands, span)
    }

    /// The values of the graph that a node of host code reads, in the order of its leaves.
    fn host_operands(&mut self, id: HostId, span: Span) -> Eval<Vec<Node>> {
        let build = self.build(span)?;
        let leaves = leaves(&build.host, &build.fragments, id);
        leaves.iter().map(|leaf| self.leaf_node(leaf, span)).collect()
    }

    fn leaf_node(&mut self, leaf: &Leaf, span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        match leaf {
            Leaf::Text(name) => match build.graph.input_named(name) {
                Some(node) => Ok(node),
                None => {
                    let ty = TensorType::new(DType::U8, Shape::new([Dim::symbol(&format!("{name}_bytes"))]));
                    build.graph.input(name, ty).map_err(|e| self.rule(e, &[], span))
                }
            },
            Leaf::Numbers(name) => {
                if let Some(at) = build.inputs.iter().position(|i| i.name == *name) {
                    return self.to_node(&Value::Input(at), span);
                }
                match build.graph.output_named(name) {
                    Some(node) => Ok(node),
                    None => {
                        Err(Diagnostic::new(Code::RunTimeValue, span, format!("`{name}` is no value of the graph"))
                            .into())
                    }
                }
            }
        }
    }

    /// Whether an input is a list of numbers.
    pub(crate) fn is_list_input(&self, input: usize) -> bool {
        let kind = self.build.as_ref().and_then(|b| b.inputs.get(input)).map(|i| i.kind);
        matches!(kind, Some(InputKind::Numbers | InputKind::Ids))
    }

    /// An input that host code reads.
    pub(crate) fn host_input(&mut self, input: usize, span: Span) -> Eval {
        let name = self.build(span)?.inputs[input].name.clone();
        self.host_node(HostNode::Leaf(Leaf::Numbers(name)), span)
    }

    /// The numbers of a tensor as an ordinary value that is known only when running.
    pub(crate) fn tensor_to_host(&mut self, node: Node, span: Span) -> Eval {
        let build = self.build(span)?;
        let known =
            build.graph.outputs().find(|(n, v)| *v == node && n.starts_with("read.")).map(|(n, _)| n.to_owned());
        let name = match known {
            Some(name) => name,
            None => {
                let name = format!("read.{}", build.graph.outputs().count());
                build.graph.output(&name, node).map_err(|e| self.rule(e, &[node], span))?;
                name
            }
        };
        self.host_node(HostNode::Leaf(Leaf::Numbers(name)), span)
    }

    /// The token input, i64 `[S]`.
    pub(crate) fn token_input(&mut self, span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        if let Some(tokens) = build.tokens {
            return Ok(tokens);
        }
        let ty = TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)]));
        match build.graph.input("input_ids", ty) {
            Ok(node) => {
                build.tokens = Some(node);
                Ok(node)
            }
            Err(error) => Err(self.rule(error, &[], span)),
        }
    }

    /// A weight with the type that the tensor index gives it; `shape` where there is no index.
    pub(crate) fn weight(&mut self, name: &str, shape: Option<&[i64]>, span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        let (dims, dtype) = match build.tensors {
            None => match shape {
                Some(shape) => (shape.to_vec(), DType::F32),
                None => {
                    let d = Diagnostic::new(
                        Code::MissingWeight,
                        span,
                        format!("the shape of `{name}` is not known without a tensor index"),
                    );
                    return Err(d.help("give the index with `--tensors tensors.toml`").into());
                }
            },
            Some(tensors) => match tensors.shape(name) {
                Some(found) => (
                    found.iter().map(|&n| n as i64).collect(),
                    tensors.dtype(name).unwrap_or(dtype_of(tallow_format::Encoding::U32)),
                ),
                None => return Err(self.missing_weight(name, shape, span)),
            },
        };
        if let Some(expected) = shape
            && expected != dims
        {
            let d = Diagnostic::new(
                Code::WeightShape,
                span,
                format!("`{name}` has the shape {dims:?}, and this call needs {expected:?}"),
            )
            .label("does not fit the tensor");
            return Err(d.help("check the sizes in the config against the tensor index").into());
        }
        let build = self.build(span)?;
        match build.graph.weight(name, TensorType::new(dtype, Shape::fixed(&dims))) {
            Ok(node) => Ok(node),
            Err(error) => Err(self.rule(error, &[], span)),
        }
    }

    fn missing_weight(&self, name: &str, shape: Option<&[i64]>, span: Span) -> Flow {
        let label = match shape {
            Some(shape) => format!("not in the tensor index; one of the shape {shape:?} is needed"),
            None => "not in the tensor index".to_owned(),
        };
        let d = Diagnostic::new(Code::MissingWeight, span, format!("the model has no tensor `{name}`")).label(label);
        let names = self.build.as_ref().and_then(|b| b.tensors).map(TensorShapes::names).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // One that goes on a little where this one stops comes before the one with the fewest edits.
        let (start, end) = name.rsplit_once('.').unwrap_or((name, ""));
        let longer = |n: &&&str| {
            n.rsplit_once('.').is_some_and(|(s, e)| e == end && s.starts_with(start) && s.len() <= start.len() + 10)
        };
        let near = names.iter().filter(longer).min_by_key(|n| n.len()).copied();
        match near.or_else(|| crate::nearest::nearest(name, &names)) {
            Some(near) => d.help(format!("did you mean `{near}`?")).into(),
            None => {
                let first: Vec<&str> = names.into_iter().take(6).collect();
                d.help(format!(
                    "the tensor index begins with {}",
                    first.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
                ))
                .into()
            }
        }
    }

    /// Whether the tensor index has a tensor; false without an index.
    pub(crate) fn has_weight(&self, name: &str) -> bool {
        self.build.as_ref().and_then(|b| b.tensors).is_some_and(|t| t.shape(name).is_some())
    }

    /// `a op b` where one is a tensor.
    pub(crate) fn tensor_binary(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Eval {
        let scalar = |v: &Value| match v {
            Value::Int(n) => Some(n.value as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        };
        let compare = |how| Some(Op::Compare { how });
        let operation = match op {
            BinaryOp::Add => None,
            BinaryOp::Sub => None,
            BinaryOp::Mul => None,
            BinaryOp::Div => None,
            BinaryOp::Rem => Some(Op::Remainder),
            BinaryOp::Eq => compare(Comparison::Equal),
            BinaryOp::Ne => compare(Comparison::NotEqual),
            BinaryOp::Lt => compare(Comparison::Less),
            BinaryOp::Le => compare(Comparison::LessEqual),
            BinaryOp::Gt => compare(Comparison::Greater),
            BinaryOp::Ge => compare(Comparison::GreaterEqual),
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::And | BinaryOp::Or => {
                return self.tensor_logical(op, a, b, span);
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                let d = Diagnostic::new(Code::Type, span, format!("`{}` does not work on tensors", op.symbol()));
                return Err(d.into());
            }
        };
        let add = |value: f64| Op::AddScalar { value: (value as f32).into() };
        let mul = |value: f64| Op::MulScalar { value: (value as f32).into() };
        // What leaves every value as it is adds nothing to the graph.
        if let (BinaryOp::Mul | BinaryOp::Div, None, Some(1.0)) = (op, scalar(a), scalar(b)) {
            return Ok(Value::Tensor(self.to_node(a, span)?));
        }
        if let (BinaryOp::Add | BinaryOp::Sub, None, Some(0.0)) = (op, scalar(a), scalar(b))
            && !self.float_operand(a, span)?
        {
            return Ok(Value::Tensor(self.to_node(a, span)?));
        }
        let node = match (op, scalar(a), scalar(b)) {
            (BinaryOp::Add, None, Some(c)) => {
                let x = self.to_node(a, span)?;
                self.op(add(c), &[x], span)?
            }
            (BinaryOp::Add, Some(c), None) => {
                let x = self.to_node(b, span)?;
                self.op(add(c), &[x], span)?
            }
            (BinaryOp::Sub, None, Some(c)) => {
                let x = self.to_node(a, span)?;
                self.op(add(-c), &[x], span)?
            }
            (BinaryOp::Sub, Some(c), None) => {
                let x = self.to_node(b, span)?;
                let minus = self.op(Op::Neg, &[x], span)?;
                self.op(add(c), &[minus], span)?
            }
            (BinaryOp::Mul, None, Some(c)) => {
                let x = self.to_node(a, span)?;
                self.op(mul(c), &[x], span)?
            }
            (BinaryOp::Mul, Some(c), None) => {
                let x = self.to_node(b, span)?;
                self.op(mul(c), &[x], span)?
            }
            (BinaryOp::Div, None, Some(c)) if self.float_operand(a, span)? => {
                if c == 0.0 {
                    return Err(Diagnostic::new(Code::Arithmetic, span, "a tensor divided by 0").into());
                }
                let x = self.to_node(a, span)?;
                self.op(mul(1.0 / c), &[x], span)?
            }
            (BinaryOp::Div, Some(c), None) if self.float_operand(b, span)? => {
                let x = self.to_node(b, span)?;
                let one = self.op(Op::Reciprocal, &[x], span)?;
                if c == 1.0 { one } else { self.op(mul(c), &[one], span)? }
            }
            _ => {
                let (x, y) = self.pair(a, b, span)?;
                if op == BinaryOp::Mul
                    && let Some(gated) = self.gated_product(x, y, span)?
                {
                    return Ok(Value::Tensor(gated));
                }
                let op = operation.unwrap_or(match op {
                    BinaryOp::Add => Op::Add,
                    BinaryOp::Sub => Op::Sub,
                    BinaryOp::Mul => Op::Mul,
                    _ => Op::Div,
                });
                self.op(op, &[x, y], span)?
            }
        };
        Ok(Value::Tensor(node))
    }

    fn float_operand(&mut self, value: &Value, span: Span) -> Eval<bool> {
        let node = self.to_node(value, span)?;
        Ok(is_float(self.ty(node).dtype))
    }

    /// Two operands, a number in the element type of the other.
    pub(crate) fn pair(&mut self, a: &Value, b: &Value, span: Span) -> Eval<(Node, Node)> {
        let number = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_) | Value::Size(_));
        match (number(a), number(b)) {
            (false, true) => {
                let x = self.to_node(a, span)?;
                let y = self.number_like(b, x, span)?;
                Ok((x, y))
            }
            (true, false) => {
                let y = self.to_node(b, span)?;
                let x = self.number_like(a, y, span)?;
                Ok((x, y))
            }
            _ => Ok((self.to_node(a, span)?, self.to_node(b, span)?)),
        }
    }

    fn number_like(&mut self, value: &Value, like: Node, span: Span) -> Eval<Node> {
        let dtype = match self.ty(like).dtype.computes_as() {
            t if is_float(t) => DType::F32,
            other => other,
        };
        let x = match value {
            Value::Int(n) => n.value as f32,
            Value::Float(x) => *x as f32,
            other => {
                let number = self.to_node(other, span)?;
                return if dtype == DType::I64 { Ok(number) } else { self.op(Op::Cast { dtype }, &[number], span) };
            }
        };
        self.filled(dtype, &[], vec![x], span)
    }

    pub(crate) fn tensor_logical(&mut self, op: BinaryOp, a: &Value, b: &Value, span: Span) -> Eval {
        let how = match op {
            BinaryOp::And | BinaryOp::BitAnd => Connective::And,
            BinaryOp::Or | BinaryOp::BitOr => Connective::Or,
            _ => Connective::Xor,
        };
        let (x, y) = (self.to_node(a, span)?, self.to_node(b, span)?);
        Ok(Value::Tensor(self.op(Op::Logical { how }, &[x, y], span)?))
    }

    pub(crate) fn tensor_unary(&mut self, op: UnaryOp, value: &Value, span: Span) -> Eval {
        let x = self.to_node(value, span)?;
        let op = match op {
            UnaryOp::Not => Op::Not,
            _ => Op::Neg,
        };
        Ok(Value::Tensor(self.op(op, &[x], span)?))
    }
}

/// Whether a type computes with real numbers.
pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype.computes_as(), DType::F32)
}

/// The name by which the graph calls a node of host code.
pub fn host_name(id: HostId) -> String {
    format!("host{}", id.0)
}

/// The leaves that a node needs, in a fixed order.
pub(crate) fn leaves(nodes: &[HostNode], fragments: &[Fragment], id: HostId) -> Vec<Leaf> {
    super::host::leaves_of(nodes, fragments, &Value::Host(id))
}
