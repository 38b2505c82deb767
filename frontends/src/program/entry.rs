//! From a parsed program, a config and a tensor index to a [`Module`].

use super::ast::{ExprKind, Function, Language, Span, Tree, TypeKind};
use super::build::{Build, Input, InputKind};
use super::codes::Code;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::eval::{Evaluator, with_stack};
use super::host::{HostNode, HostProgram, Leaf};
use super::module::{Driver, ENCODER, MAIN, Module, Outcome, Start};
use super::rules::Rules;
use super::split;
use super::value::{TriValue, Value};
use crate::families::TensorShapes;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tallow_format::Config;
use tallow_ir::{Effect, NodeKind, Op, Value as Node};

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most statements, calls and rounds of loops.
    pub steps: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { steps: super::eval::MAX_STEPS }
    }
}

/// Compiles a program for a config and the tensors beside it. `name` stands for the source in messages. Without a
/// tensor index shapes follow from the calls alone, and there are no biases.
///
/// # Errors
/// All that is wrong with the program, by place.
pub fn compile(
    source: &str,
    language: Language,
    name: &str,
    config: &Config,
    tensors: Option<&dyn TensorShapes>,
    options: Options,
) -> Result<Module, Diagnostics> {
    let fail = |list: Vec<Diagnostic>| Diagnostics { name: name.to_owned(), source: source.into(), list };
    let tree = Arc::new(super::parse(source, language).map_err(fail)?);
    let work = || evaluate(&tree, config, tensors, options);
    match with_stack(work) {
        Ok(result) => {
            let mut module = result.map_err(fail)?;
            // A chat function that fails would fail in every conversation; the rest of the program works without it.
            if let Some(Err(d)) = module.chat_prompt(&[("user", "Hello")], config) {
                let shown = fail(vec![d]).to_string();
                module.notes.push(format!("the chat function of the program fails:\n{shown}"));
            }
            Ok(module)
        }
        Err(error) => {
            let d = Diagnostic::new(Code::Memory, Span::default(), format!("no thread for the program: {error}"));
            Err(fail(vec![d]))
        }
    }
}

fn evaluate(
    tree: &Arc<Tree>,
    config: &Config,
    tensors: Option<&dyn TensorShapes>,
    options: Options,
) -> Result<Module, Vec<Diagnostic>> {
    let Some(entry) = tree.functions.iter().position(|f| &*f.name.text == "forward" && f.owner.is_none()) else {
        let names: Vec<&str> = tree.functions.iter().map(|f| &*f.name.text).collect();
        let d = Diagnostic::new(Code::NoEntry, Span::default(), "the program has no function `forward`");
        let near = crate::nearest::nearest("forward", &names)
            .and_then(|near| tree.functions.iter().find(|f| &*f.name.text == near));
        return Err(vec![match near {
            Some(near) => {
                Diagnostic { span: near.name.span, ..d }.label("is this meant to be it?").help("name it `forward`")
            }
            None => d.help("add `pub fn forward(…)`, which takes the inputs, the config and the weights"),
        }]);
    };
    let root = Arc::new(super::config::table(config));
    let mut e = Evaluator::new(tree, Some(Build::new(config, root, tensors)), None);
    e.limit_steps(options.steps);
    let function = &tree.functions[entry];
    let Some(args) = arguments(&mut e, function) else { return Err(sorted(e.errors)) };
    let result = e.call_function(entry, args, function.name.span, function.name.span);
    // A product that an attention did not take because of another mistake is none.
    if e.errors.is_empty() && result.is_ok() {
        e.check_roles();
    }
    let value = match result {
        Ok(value) => value,
        Err(super::eval::Flow::Error(d)) => {
            e.report(*d);
            Value::Poison
        }
        Err(_) => Value::Poison,
    };
    if !e.errors.is_empty() {
        return Err(sorted(e.errors));
    }
    if matches!(value, Value::Poison) {
        let d = Diagnostic::new(Code::NoResult, function.name.span, "`forward` leaves without a result");
        return Err(vec![d]);
    }
    finish(e, tree, function, value).map_err(sorted)
}

fn sorted(mut list: Vec<Diagnostic>) -> Vec<Diagnostic> {
    list.sort_by_key(|d| (d.span.start, d.span.end, d.code));
    list
}

/// The arguments of `forward`; faults are reported.
fn arguments(e: &mut Evaluator<'_>, function: &Function) -> Option<Vec<Value>> {
    match e.tree.language {
        Language::Rs => rs_arguments(e, function),
        Language::Tri => tri_arguments(e, function),
    }
}

fn rs_arguments(e: &mut Evaluator<'_>, function: &Function) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(function.params.len());
    for param in &function.params {
        let name = super::eval::free::bound(&param.pattern).into_iter().next().unwrap_or_else(|| "input".into());
        let slice = |ty: &super::ast::Type| match &ty.bare().kind {
            TypeKind::Slice(of) | TypeKind::Array(of, _) => of.name().map(str::to_owned),
            TypeKind::Named(name, args) if &**name == "Vec" => args.first().and_then(|a| a.name().map(str::to_owned)),
            _ => None,
        };
        let weights = matches!(&*name, "w" | "weights");
        let value = match (param.ty.name(), slice(&param.ty).as_deref()) {
            (Some("Config"), _) => e.build.as_ref().map(|b| Value::Config(b.root.clone())),
            (Some("Tokenizer"), _) => Some(Value::Tokenizer),
            (Some("Weights"), _) => Some(Value::Weights),
            (Some("Tensor"), _) if weights => Some(Value::Weights),
            (Some("Tensor"), _) => input(e, &name, InputKind::Tensor),
            (Some("str" | "String"), _) => input(e, &name, InputKind::Text),
            (_, Some("f32" | "f64")) => input(e, &name, InputKind::Numbers),
            (_, Some("u32" | "i64" | "i32" | "usize" | "u64")) => input(e, &name, InputKind::Ids),
            _ => None,
        };
        match value {
            Some(value) => values.push(value),
            None => {
                let d = Diagnostic::new(Code::Parameter, param.span, format!("the type of `{name}` tells no input"))
                    .label("what is given here?")
                    .help("inputs are `&str`, `&[f32]`, `&[u32]` and `&Tensor`; beside them stand `&Config`, `&Tokenizer` and `&Weights`");
                e.report(d);
            }
        }
    }
    (e.errors.is_empty()).then_some(values)
}

fn input(e: &mut Evaluator<'_>, name: &str, kind: InputKind) -> Option<Value> {
    use tallow_ir::{Dim, SEQUENCE, Shape, TensorType};
    let build = e.build.as_mut()?;
    let at = build.inputs.len();
    let first_ids = kind == InputKind::Ids && build.tokens.is_none();
    let node = match kind {
        InputKind::Text | InputKind::Tensor => None,
        InputKind::Numbers => {
            let ty = TensorType::f32(Shape::new([Dim::symbol(&format!("{name}_len"))]));
            build.graph.input(name, ty).ok()
        }
        // The first list of ids is the text; others keep their names.
        InputKind::Ids if first_ids => {
            let ty = TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)]));
            let node = build.graph.input("input_ids", ty).ok()?;
            build.tokens = Some(node);
            Some(node)
        }
        InputKind::Ids => {
            let ty = TensorType::i64(Shape::new([Dim::symbol(&format!("{name}_len"))]));
            Some(build.graph.input(name, ty).ok()?)
        }
    };
    let shown = if first_ids { "input_ids" } else { name };
    build.inputs.push(Input { name: shown.to_owned(), kind, node });
    if kind == InputKind::Text {
        let leaf = HostNode::Leaf(Leaf::Text(name.to_owned()));
        return e.host_node(leaf, Span::default()).ok();
    }
    Some(Value::Input(at))
}

fn tri_arguments(e: &mut Evaluator<'_>, function: &Function) -> Option<Vec<Value>> {
    let build = e.build.as_ref()?;
    if function.params.len() != 4 {
        let message = format!("`forward` takes 4 parameters, found {}", function.params.len());
        e.report(
            Diagnostic::new(Code::Arity, function.span, message)
                .help("they are `input`, `output`, `seq` and `cfg`, by position"),
        );
        return None;
    }
    let seq = Value::Size(tallow_ir::Dim::symbol(tallow_ir::SEQUENCE));
    Some(vec![Value::Tri(TriValue::Input), Value::Tri(TriValue::Output), seq, Value::Config(build.root.clone())])
}

/// Puts graphs, driver and outcome together.
fn finish(
    mut e: Evaluator<'_>,
    tree: &Arc<Tree>,
    function: &Function,
    value: Value,
) -> Result<Module, Vec<Diagnostic>> {
    let span = result_span(&e, function);
    let mut outputs: IndexMap<String, Node> = IndexMap::new();
    let flow = |e: &mut Evaluator<'_>, flow| {
        if let super::eval::Flow::Error(d) = flow {
            e.report(*d);
        }
        sorted(std::mem::take(&mut e.errors))
    };
    let generated = e.build.as_ref().and_then(|b| b.generation.clone());
    let sampled = match (&value, &generated) {
        (Value::Decoded | Value::Generated, Some(generation)) => generation.sampled,
        (Value::Unit, _) if tree.language == Language::Tri => e.build.as_ref().and_then(|b| b.decoded),
        (Value::Decoded, None) => e.build.as_ref().and_then(|b| b.decoded),
        (Value::Sampled(sampled), None) => Some(*sampled),
        _ => None,
    };
    let (mut outcome, mut driver) = (Outcome::Tensors, None);
    if let Some(sampled) = sampled {
        let found = e.build.as_ref().map(|b| b.sampled[sampled].clone());
        let Some(found) = found else { return Err(Vec::new()) };
        let mut logits = found.logits;
        if e.dims(logits).len() == 1 {
            // One row of logits, which the driver takes as rows.
            logits = e.op(Op::Unsqueeze { axes: vec![0] }, &[logits], span).map_err(|error| flow(&mut e, error))?;
        }
        outputs.insert("logits".into(), logits);
        let (start, stop, limit, total) = match generated {
            Some(g) => (g.start, g.stop, g.limit, g.total),
            None => (Start::Prompt, Vec::new(), None, None),
        };
        let rules = Rules { suppress: found.masks.always, suppress_first: found.masks.first, ..Rules::default() };
        driver = Some(Driver { start, sampling: found.how, rules, beams: None, stop, limit, length: None, total });
        outcome = Outcome::Text;
    } else {
        let named = result_names(&e, function);
        match collect(&mut e, &value, &named, span) {
            Ok(Some(found)) => outputs = found,
            Ok(None) => match e.host_value(&value, span) {
                Ok(value) => outcome = Outcome::Value(value),
                Err(error) => return Err(flow(&mut e, error)),
            },
            Err(error) => return Err(flow(&mut e, error)),
        }
    }
    let Some(build) = e.build.take() else { return Err(Vec::new()) };
    let host = HostProgram { tree: tree.clone(), nodes: build.host, fragments: build.fragments };
    if let Outcome::Value(value) = &outcome {
        for leaf in host.leaves(value) {
            if let Leaf::Numbers(name) = leaf
                && let Some(node) = build.graph.output_named(&name)
            {
                outputs.insert(name, node);
            }
        }
    }
    let first_only: Vec<Node> =
        build.masks.iter().filter(|(_, (_, m))| !m.first.is_empty()).map(|(&node, _)| node).collect();
    if let Some(node) = split::reaches(&build.graph, &outputs, &first_only) {
        let at = build.spans.get(&node.node.index()).copied().unwrap_or(span);
        let d = Diagnostic::new(Code::Generation, at, "what is not the first token is known to a driver alone");
        return Err(vec![
            d.label("read by tensor code")
                .help("sample these logits and give the token to `tok.decode`, or to the list of tokens"),
        ]);
    }
    let tokens = driver.is_some().then_some(build.tokens).flatten();
    let parts = split::split(&build.graph, &outputs, tokens.filter(|_| generated_needs_split(&build.graph)))
        .map_err(|error| vec![Diagnostic::new(Code::Shape, span, error.to_string())])?;
    let mut graphs = IndexMap::new();
    let mut spans: HashMap<String, HashMap<usize, Span>> = HashMap::new();
    let mut kept_nodes: Vec<usize> = Vec::new();
    for (name, part) in [(ENCODER, parts.once), (MAIN, Some(parts.main))] {
        let Some((graph, origin)) = part else { continue };
        kept_nodes.extend(origin.iter().map(|(_, old)| *old));
        let placed = origin.into_iter().filter_map(|(new, old)| Some((new, *build.spans.get(&old)?))).collect();
        spans.insert(name.to_owned(), placed);
        graphs.insert(name.to_owned(), graph);
    }
    let mut notes = build.notes;
    if build.tensors.is_none() && build.graph.weights().next().is_some() {
        let cure = "give the index with --tensors";
        notes.push(format!("without a tensor index no biases are known, so that none are added; {cure}"));
    }
    // A cache that no graph keeps belongs to an attention that nothing reads.
    let kept: HashSet<usize> = kept_nodes.into_iter().collect();
    let idle = build.graph.nodes().find(|id| {
        let state = matches!(&build.graph.node(*id).kind, NodeKind::Op(op) if op.info().effect == Effect::State);
        state && !kept.contains(&id.index())
    });
    if let Some(at) = idle.and_then(|id| build.spans.get(&id.index())) {
        notes.push(format!("nothing uses the result of an attention (byte {} of the program)", at.start));
    }
    let chat = tree.functions.iter().position(is_chat);
    Ok(Module {
        language: tree.language,
        graphs,
        spans,
        inputs: build.inputs,
        driver,
        outcome,
        host: Arc::new(host),
        chat,
        read_keys: build.read_keys,
        reads_attention: build.decoder.is_some(),
        notes,
    })
}

/// Whether part of a generation can run once: the graph reads more than its tokens.
fn generated_needs_split(graph: &tallow_ir::Graph) -> bool {
    graph.inputs().any(|(name, _)| name != "input_ids" && name != tallow_ir::POS)
}

/// A function that writes a conversation: its first parameter is `&[Message]`.
fn is_chat(function: &Function) -> bool {
    let first = function.params.first().map(|p| &p.ty.bare().kind);
    matches!(first, Some(TypeKind::Slice(of)) if of.name() == Some("Message"))
}

fn result_span(e: &Evaluator<'_>, function: &Function) -> Span {
    match &e.tree.expr(function.body).kind {
        ExprKind::Block(block) => block.value.map_or(function.name.span, |v| e.span(v)),
        _ => function.name.span,
    }
}

/// Names for what `forward` gives: those of the variables in its last expression.
fn result_names(e: &Evaluator<'_>, function: &Function) -> Vec<String> {
    let ExprKind::Block(block) = &e.tree.expr(function.body).kind else { return Vec::new() };
    let Some(last) = block.value else { return Vec::new() };
    let one = |id: super::ast::ExprId| match &e.tree.expr(id).kind {
        ExprKind::Path(path, _) if path.len() == 1 => path[0].text.to_string(),
        ExprKind::Field(_, name) if !name.text.starts_with(|c: char| c.is_ascii_digit()) => name.text.to_string(),
        _ => String::new(),
    };
    match &e.tree.expr(last).kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().map(|&id| one(id)).collect(),
        _ => vec![one(last)],
    }
}

/// The outputs of a result made of tensors alone; `None` where ordinary values are in it.
fn collect(
    e: &mut Evaluator<'_>,
    value: &Value,
    names: &[String],
    span: Span,
) -> super::eval::Eval<Option<IndexMap<String, Node>>> {
    let mut out = IndexMap::new();
    let pick = |i: usize, fallback: String| names.get(i).filter(|n| !n.is_empty()).cloned().unwrap_or(fallback);
    let tensor = |e: &mut Evaluator<'_>, v: &Value| -> super::eval::Eval<Option<Node>> {
        match v {
            Value::Tensor(_) | Value::Input(_) => e.to_node(v, span).map(Some),
            Value::Host(id) => Ok(e.read_back(*id)),
            _ => Ok(None),
        }
    };
    match value {
        Value::TopK { values, index } => {
            out.insert("values".to_owned(), *values);
            out.insert("index".to_owned(), *index);
        }
        Value::Struct(of) => {
            for (name, field) in &of.fields {
                let Some(node) = tensor(e, field)? else { return Ok(None) };
                out.insert(name.to_string(), node);
            }
        }
        Value::Tuple(items) | Value::List(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                let Some(node) = tensor(e, item)? else { return Ok(None) };
                let mut name = pick(i, format!("output{i}"));
                if out.contains_key(&name) {
                    name = format!("output{i}");
                }
                out.insert(name, node);
            }
        }
        Value::Tensor(_) | Value::Input(_) | Value::Host(_) => {
            let Some(node) = tensor(e, value)? else { return Ok(None) };
            let logits = e.is_logits(node);
            out.insert(if logits { "logits".to_owned() } else { pick(0, "output".to_owned()) }, node);
        }
        Value::Unit => {
            let help = match e.tree.language {
                Language::Rs => "end it with a tensor, or with decoded text, without a semicolon",
                Language::Tri => "end it with `io.bpe_decode(token, output)`",
            };
            return Err(Diagnostic::new(Code::NoResult, span, "`forward` gives nothing").help(help).into());
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Char(_) => return Ok(None),
        other => {
            let d = Diagnostic::new(Code::NoResult, span, format!("`forward` gives {}", other.kind()));
            return Err(d
                .help("the result is a tensor, several of them, decoded text, or values made from them")
                .into());
        }
    }
    Ok(Some(out))
}

impl Evaluator<'_> {
    /// The tensor that a run-time value is read from as it is.
    fn read_back(&self, id: super::host::HostId) -> Option<Node> {
        let build = self.build.as_ref()?;
        match &build.host[id.0 as usize] {
            HostNode::Leaf(Leaf::Numbers(name)) => {
                build.graph.output_named(name).or_else(|| build.graph.input_named(name))
            }
            _ => None,
        }
    }

    /// Whether a value is a row of logits for each token.
    fn is_logits(&self, node: Node) -> bool {
        let tokens = self.build.as_ref().is_some_and(|b| b.tokens.is_some());
        let dims = self.dims(node);
        let vocab = self.build.as_ref().and_then(|b| b.config.architecture().u64("vocab_size").ok().flatten());
        tokens
            && dims.len() == 2
            && dims[0].as_symbol() == Some(tallow_ir::SEQUENCE)
            && dims[1].as_const().and_then(|n| u64::try_from(n).ok()) == vocab
    }

    /// A result with tensors in it as a value that host code makes.
    fn host_value(&mut self, value: &Value, span: Span) -> super::eval::Eval {
        let each = |e: &mut Self, items: &[Value]| -> super::eval::Eval<Vec<Value>> {
            items.iter().map(|v| e.host_value(v, span)).collect()
        };
        Ok(match value {
            Value::Tensor(node) => self.tensor_to_host(*node, span)?,
            Value::TopK { values, index } => {
                Value::tuple(vec![self.tensor_to_host(*values, span)?, self.tensor_to_host(*index, span)?])
            }
            Value::Input(input) => self.host_input(*input, span)?,
            Value::List(items) => Value::list(each(self, items)?),
            Value::Tuple(items) => Value::tuple(each(self, items)?),
            Value::Struct(of) => {
                let mut out = (**of).clone();
                for (_, field) in &mut out.fields {
                    *field = self.host_value(field, span)?;
                }
                Value::Struct(Arc::new(out))
            }
            Value::Weights
            | Value::Tokenizer
            | Value::Config(_)
            | Value::Closure(_)
            | Value::Function(_)
            | Value::Builtin(..)
            | Value::Tri(_)
            | Value::Sampled(_)
            | Value::Decoded
            | Value::Generated => {
                let d = Diagnostic::new(
                    Code::NoResult,
                    span,
                    format!("{} is a part of what `forward` gives", value.kind()),
                );
                return Err(d
                    .help("the parts of a result are tensors, or values made from run-time text and `to_vec`")
                    .into());
            }
            Value::Missing(_) => return Err(self.mismatch(value, "a value", span)),
            other => other.clone(),
        })
    }
}
