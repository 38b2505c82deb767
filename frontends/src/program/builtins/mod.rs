//! Builtins: everything that programs can call beside their own functions and the methods of ordinary values.
//!
//! Each is a row of a table: its name, its parameters, one line of documentation, and the function that lowers a call
//! to operations. `docs/languages.md` is made from the tables.
//!
//! | module | holds |
//! |---|---|
//! | [`weights`] | methods of the weight store |
//! | [`convolution`] | convolutions, of the weight store and of given kernels |
//! | [`attention`] | attention in all its forms, and rotary embedding |
//! | [`elementwise`] | functions of each element |
//! | [`shapes`] | reshaping, joining, cutting |
//! | [`sizes`] | sizes as arguments, and those that only running tells |
//! | [`reduce`] | sums, means, choices |
//! | [`create`] | new tensors |
//! | [`vision`] | pictures, video, detection, diffusion |
//! | [`sound`] | sound and speech |
//! | [`sampling`] | sampling, and the tokenizer |
//! | [`tri`], [`tri_std`] | the modules of `.tri`: roles; the rest |

pub mod attention;
pub mod convolution;
pub mod create;
pub mod elementwise;
pub mod reduce;
pub mod sampling;
pub mod shapes;
pub mod sizes;
pub mod sound;
pub mod tri;
pub mod tri_std;
pub mod vision;
pub mod weights;

use super::ast::Span;
use super::codes::Code;
use super::diagnostic::Diagnostic;
use super::eval::{Eval, Evaluator, Flow};
use super::value::{TriValue, Value};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tallow_ir::Value as Node;

/// One builtin.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, those in brackets optional: `x, name, out[, kernel, stride]`; `…` for any number more.
    pub params: &'static str,
    /// What it gives, in one sentence: shapes, units, defaults.
    pub doc: &'static str,
    /// Lowers a call.
    pub lower: fn(&mut Evaluator<'_>, &Args) -> Eval,
}

/// What builtins are called on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The weight store.
    Weights,
    /// A tensor.
    Tensor,
    /// `Tensor::…`.
    Function,
    /// The tokenizer.
    Tokenizer,
    /// `tensor.…` of `.tri`.
    TriTensor,
    /// `io.…` of `.tri`.
    TriIo,
    /// `convert.…` of `.tri`.
    TriConvert,
    /// `transformer_llama.…` of `.tri`.
    TriLlama,
}

/// Every table, by what its builtins are called on, in the order of the documentation.
pub static TABLES: &[(Owner, &str, &[Builtin])] = &[
    (Owner::Weights, "Weights", weights::METHODS),
    (Owner::Tensor, "Elements", elementwise::METHODS),
    (Owner::Tensor, "Shapes", shapes::METHODS),
    (Owner::Tensor, "Sums, means and choices", reduce::METHODS),
    (Owner::Tensor, "Convolutions", convolution::METHODS),
    (Owner::Tensor, "Pictures, video, diffusion", vision::METHODS),
    (Owner::Tensor, "Sound and speech", sound::METHODS),
    (Owner::Tensor, "Sampling", sampling::METHODS),
    (Owner::Function, "Attention", attention::FUNCTIONS),
    (Owner::Function, "New tensors", create::FUNCTIONS),
    (Owner::Function, "Joining", shapes::FUNCTIONS),
    (Owner::Function, "Pictures, video, diffusion", vision::FUNCTIONS),
    (Owner::Function, "Sound and speech", sound::FUNCTIONS),
    (Owner::Tokenizer, "Tokenizer", sampling::TOKENIZER),
    (Owner::TriTensor, "tensor", tri::TENSOR),
    (Owner::TriTensor, "Other names, values as they are, and weights by name", tri_std::TENSOR),
    (Owner::TriIo, "io", tri::IO),
    (Owner::TriConvert, "convert", tri::CONVERT),
    (Owner::TriLlama, "transformer_llama", tri_std::LLAMA),
];

impl Builtin {
    /// The least and the most number of arguments.
    fn arity(&self) -> (usize, usize) {
        let (must, may) = self.params.split_once('[').unwrap_or((self.params, ""));
        let count = |s: &str| s.split(',').filter(|p| !p.trim_matches([' ', ']', '[']).is_empty()).count();
        let least = count(must);
        let open = self.params.contains('…');
        (least - usize::from(must.contains('…')), if open { usize::MAX } else { least + count(may) })
    }
}

fn find(owner: Owner, name: &str) -> Option<&'static Builtin> {
    static MAP: OnceLock<HashMap<(Owner, &'static str), &'static Builtin>> = OnceLock::new();
    MAP.get_or_init(|| TABLES.iter().flat_map(|(o, _, table)| table.iter().map(move |b| ((*o, b.name), b))).collect())
        .get(&(owner, name))
        .copied()
}

fn owner_of(value: &Value) -> Option<Owner> {
    Some(match value {
        Value::Tensor(_) | Value::Input(_) | Value::Tokens | Value::Pending(_) => Owner::Tensor,
        Value::Sampled(_) => Owner::Tensor,
        Value::Weights => Owner::Weights,
        Value::Tokenizer => Owner::Tokenizer,
        Value::Tri(TriValue::Tensor) => Owner::TriTensor,
        Value::Tri(TriValue::Io) => Owner::TriIo,
        Value::Tri(TriValue::Convert) => Owner::TriConvert,
        Value::Tri(TriValue::Llama) => Owner::TriLlama,
        _ => return None,
    })
}

/// The method of a value, where a table holds it.
pub(crate) fn method(value: &Value, name: &str) -> Option<&'static Builtin> {
    find(owner_of(value)?, name)
}

/// Whether tensors have a method of this name.
pub(crate) fn is_tensor_method(name: &str) -> bool {
    find(Owner::Tensor, name).is_some()
}

/// Whether any table holds a method of this name.
pub(crate) fn is_method(name: &str) -> bool {
    TABLES.iter().any(|(owner, _, _)| find(*owner, name).is_some())
}

/// The names of the methods that tables hold for a value.
pub(crate) fn methods_of(value: &Value) -> impl Iterator<Item = &'static str> {
    let owner = owner_of(value);
    TABLES.iter().filter(move |(o, _, _)| Some(*o) == owner).flat_map(|(_, _, table)| table.iter().map(|b| b.name))
}

/// An associated function: `Tensor::zeros`.
pub(crate) fn function(owner: &str, name: &str) -> Option<&'static Builtin> {
    if owner == "Tensor" { find(Owner::Function, name) } else { None }
}

/// The names of the associated functions of a type.
pub(crate) fn functions_of(owner: &str) -> impl Iterator<Item = &'static str> {
    let tensor = owner == "Tensor";
    TABLES
        .iter()
        .filter(move |(o, _, _)| tensor && *o == Owner::Function)
        .flat_map(|(_, _, table)| table.iter().map(|b| b.name))
}

/// Lowers a call after its number of arguments was checked.
pub(crate) fn lower(evaluator: &mut Evaluator<'_>, builtin: &Builtin, args: Args) -> Eval {
    let (least, most) = builtin.arity();
    let found = args.values.len();
    // Also where a call does not look at the argument, a key that the config lacks is a mistake.
    if let Some(Value::Missing(missing)) = args.values.iter().find(|v| matches!(v, Value::Missing(_))) {
        return Err(super::eval::missing_key(missing).into());
    }
    if (least..=most).contains(&found) {
        return (builtin.lower)(evaluator, &args);
    }
    let wanted = match most {
        _ if least == most => counted(least),
        usize::MAX => format!("at least {}", counted(least)),
        _ => format!("{least} to {most} arguments"),
    };
    let d = Diagnostic::new(Code::Arity, args.name, format!("`{}` takes {wanted}, found {found}", builtin.name))
        .label("called here")
        .help(format!("its signature is `{}({})`", builtin.name, builtin.params));
    Err(d.into())
}

/// `1 argument`, `2 arguments`.
pub(crate) fn counted(n: usize) -> String {
    if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") }
}

/// The arguments of a call, with their places.
pub struct Args {
    /// What the method is called on, and where that stands.
    pub receiver: Option<(Value, Span)>,
    /// The arguments.
    pub values: Vec<Value>,
    /// Where each stands.
    pub spans: Vec<Span>,
    /// The name of the function.
    pub name: Span,
    /// The whole call.
    pub span: Span,
}

impl Args {
    /// Arguments with their places.
    pub fn new(receiver: Option<(Value, Span)>, values: Vec<Value>, spans: &[Span], name: Span, span: Span) -> Self {
        Args { receiver, values, spans: spans.to_vec(), name, span }
    }

    /// Whether argument `i` was given.
    pub fn has(&self, i: usize) -> bool {
        i < self.values.len()
    }

    /// Where argument `i` stands.
    pub fn at(&self, i: usize) -> Span {
        self.spans.get(i).copied().unwrap_or(self.span)
    }

    /// Argument `i`; `Poison` where there is none.
    pub fn value(&self, i: usize) -> &Value {
        self.values.get(i).unwrap_or(&Value::Poison)
    }

    /// The receiver as an operand.
    pub fn this(&self, e: &mut Evaluator<'_>) -> Eval<Node> {
        match &self.receiver {
            Some((value, span)) => e.to_node(value, *span),
            None => Err(Flow::Poisoned),
        }
    }

    /// Argument `i` as an operand.
    pub fn tensor(&self, e: &mut Evaluator<'_>, i: usize) -> Eval<Node> {
        e.to_node(self.value(i), self.at(i))
    }

    /// Argument `i`, a list of tensors.
    pub fn tensors(&self, e: &mut Evaluator<'_>, i: usize) -> Eval<Vec<Node>> {
        match e.deref(self.value(i).clone()) {
            Value::List(items) | Value::Tuple(items) => items.iter().map(|v| e.to_node(v, self.at(i))).collect(),
            other => Err(e.mismatch(&other, "a list of tensors", self.at(i))),
        }
    }

    /// Argument `i`, a known integer.
    pub fn int(&self, e: &Evaluator<'_>, i: usize) -> Eval<i64> {
        let n = e.known_int(self.value(i), self.at(i))?.value;
        i64::try_from(n).map_err(|_| self.wrong(i, format!("{n} is past 64 bits")))
    }

    /// Argument `i`, a known count above 0 that an attribute holds.
    pub fn count(&self, e: &Evaluator<'_>, i: usize) -> Eval<u32> {
        match self.int(e, i)? {
            n @ 1..=0x7fff_ffff => Ok(n as u32),
            n => Err(self.wrong(i, format!("expected a count of at least 1, found {n}"))),
        }
    }

    /// Argument `i`, a known number of at least 0; the default where it is not given.
    pub fn natural_or(&self, e: &Evaluator<'_>, i: usize, default: u32) -> Eval<u32> {
        if !self.has(i) {
            return Ok(default);
        }
        match self.int(e, i)? {
            n @ 0..=0x7fff_ffff => Ok(n as u32),
            n => Err(self.wrong(i, format!("expected a number of at least 0, found {n}"))),
        }
    }

    /// Argument `i`, a known count above 0; the default where it is not given.
    pub fn count_or(&self, e: &Evaluator<'_>, i: usize, default: u32) -> Eval<u32> {
        if self.has(i) { self.count(e, i) } else { Ok(default) }
    }

    /// Argument `i`, a known number.
    pub fn float(&self, e: &Evaluator<'_>, i: usize) -> Eval<f64> {
        match e.deref(self.value(i).clone()) {
            Value::Int(n) => Ok(n.value as f64),
            Value::Float(x) => Ok(x),
            other => Err(e.mismatch(&other, "a number", self.at(i))),
        }
    }

    /// Argument `i`, a known number; the default where it is not given.
    pub fn float_or(&self, e: &Evaluator<'_>, i: usize, default: f64) -> Eval<f64> {
        if self.has(i) { self.float(e, i) } else { Ok(default) }
    }

    /// Argument `i`, an ε: a number of at least 1 stands for its reciprocal.
    pub fn epsilon(&self, e: &Evaluator<'_>, i: usize, default: f64) -> Eval<f32> {
        let x = self.float_or(e, i, default)?;
        if !(x.is_finite() && x >= 0.0) {
            return Err(self.wrong(i, format!("expected an ε, found {x}")));
        }
        Ok(if x >= 1.0 { (1.0 / x) as f32 } else { x as f32 })
    }

    /// Argument `i`, a known text.
    pub fn text(&self, e: &Evaluator<'_>, i: usize) -> Eval<Arc<str>> {
        match e.deref(self.value(i).clone()) {
            Value::Str(text) => Ok(text),
            other => Err(e.mismatch(&other, "a name", self.at(i))),
        }
    }

    /// Argument `i`, a known truth value; the default where it is not given.
    pub fn flag_or(&self, e: &Evaluator<'_>, i: usize, default: bool) -> Eval<bool> {
        if !self.has(i) {
            return Ok(default);
        }
        match e.deref(self.value(i).clone()) {
            Value::Bool(b) => Ok(b),
            other => Err(e.mismatch(&other, "a truth value", self.at(i))),
        }
    }

    /// Argument `i`, an axis of a tensor of `rank` dimensions, counted from 0.
    pub fn axis(&self, e: &Evaluator<'_>, i: usize, rank: usize) -> Eval<usize> {
        let axis = self.int(e, i)?;
        self.axis_in(axis, i, rank)
    }

    /// Argument `i`, an axis; the default (which may count from the end) where it is not given.
    pub fn axis_or(&self, e: &Evaluator<'_>, i: usize, rank: usize, default: i64) -> Eval<usize> {
        let axis = if self.has(i) { self.int(e, i)? } else { default };
        self.axis_in(axis, i, rank)
    }

    /// An axis from argument `i`, counted from 0.
    pub fn axis_in(&self, axis: i64, i: usize, rank: usize) -> Eval<usize> {
        let from_start = if axis < 0 { axis + rank as i64 } else { axis };
        match usize::try_from(from_start) {
            Ok(axis) if axis < rank => Ok(axis),
            _ => {
                let message = format!(
                    "there is no dimension {axis} in a tensor of {rank} dimension{}",
                    if rank == 1 { "" } else { "s" }
                );
                let d = Diagnostic::new(Code::Axis, self.at(i), message).label("no such dimension");
                Err(d.help("dimensions count from 0; negative numbers count from the end").into())
            }
        }
    }

    /// Argument `i`, a list of known integers, or one.
    pub fn ints(&self, e: &Evaluator<'_>, i: usize) -> Eval<Vec<i64>> {
        let one = |v: &Value| {
            let n = e.known_int(v, self.at(i))?.value;
            i64::try_from(n).map_err(|_| self.wrong(i, format!("{n} is past 64 bits")))
        };
        match e.deref(self.value(i).clone()) {
            Value::List(items) | Value::Tuple(items) => items.iter().map(one).collect(),
            other => Ok(vec![one(&other)?]),
        }
    }

    /// An error about argument `i`.
    pub fn wrong(&self, i: usize, message: impl Into<String>) -> Flow {
        Diagnostic::new(Code::Type, self.at(i), message).into()
    }
}
