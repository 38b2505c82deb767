//! Functions of each element: arithmetic, activations, comparisons and choice.
//!
//! A number beside a tensor takes the element type of the tensor. Two tensors broadcast as in NumPy.

use super::{Args, Builtin};
use crate::program::ast::{BinaryOp, Span};
use crate::program::build::is_float;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::{DType, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "add",
        params: "y",
        doc: "`x + y`; `y` is a tensor or a number.",
        lower: |e, a| binary(e, a, BinaryOp::Add),
    },
    Builtin {
        name: "sub",
        params: "y",
        doc: "`x - y`; `y` is a tensor or a number.",
        lower: |e, a| binary(e, a, BinaryOp::Sub),
    },
    Builtin {
        name: "mul",
        params: "y",
        doc: "`x · y`; `y` is a tensor or a number. With an operand that `silu` or `gelu` made it becomes one operation, SwiGlu or GeGlu, whose gate is what was activated (the first operand where both are).",
        lower: |e, a| binary(e, a, BinaryOp::Mul),
    },
    Builtin {
        name: "div",
        params: "y",
        doc: "`x / y`; `y` is a tensor or a number. Integers are divided towards zero.",
        lower: |e, a| binary(e, a, BinaryOp::Div),
    },
    Builtin {
        name: "rem",
        params: "y",
        doc: "What is left of `x` after whole multiples of `y`, with the sign of `y`.",
        lower: |e, a| binary(e, a, BinaryOp::Rem),
    },
    Builtin { name: "scale", params: "n", doc: "`x · n`, where `n` is a number.", lower: |e, a| scaled(e, a, |n| n) },
    Builtin { name: "neg", params: "", doc: "`-x`.", lower: |e, a| number(e, a, Op::Neg) },
    Builtin { name: "abs", params: "", doc: "The magnitude.", lower: |e, a| number(e, a, Op::Abs) },
    Builtin { name: "sign", params: "", doc: "-1, 0 or 1.", lower: |e, a| number(e, a, Op::Sign) },
    Builtin { name: "exp", params: "", doc: "The exponential.", lower: |e, a| real(e, a, Op::Exp) },
    Builtin { name: "log", params: "", doc: "The natural logarithm.", lower: |e, a| real(e, a, Op::Log) },
    Builtin { name: "ln", params: "", doc: "The natural logarithm, as `log`.", lower: |e, a| real(e, a, Op::Log) },
    Builtin { name: "sqrt", params: "", doc: "The square root.", lower: |e, a| real(e, a, Op::Sqrt) },
    Builtin { name: "rsqrt", params: "", doc: "`1 / √x`.", lower: |e, a| real(e, a, Op::Rsqrt) },
    Builtin { name: "recip", params: "", doc: "`1 / x`.", lower: |e, a| real(e, a, Op::Reciprocal) },
    Builtin {
        name: "square",
        params: "",
        doc: "`x · x`.",
        lower: |e, a| {
            let x = a.this(e)?;
            Ok(Value::Tensor(e.op(Op::Mul, &[x, x], a.span)?))
        },
    },
    Builtin {
        name: "pow",
        params: "y",
        doc: "`x` to the power `y`, a tensor or a number; real numbers.",
        lower: |e, a| pair(e, a, Op::Pow),
    },
    Builtin { name: "sin", params: "", doc: "The sine of radians.", lower: |e, a| real(e, a, Op::Sin) },
    Builtin { name: "cos", params: "", doc: "The cosine of radians.", lower: |e, a| real(e, a, Op::Cos) },
    Builtin { name: "erf", params: "", doc: "The error function.", lower: |e, a| real(e, a, Op::Erf) },
    Builtin {
        name: "floor",
        params: "",
        doc: "The largest whole number that is not above `x`.",
        lower: |e, a| real(e, a, Op::Floor),
    },
    Builtin {
        name: "ceil",
        params: "",
        doc: "The smallest whole number that is not below `x`.",
        lower: |e, a| {
            let x = operand(e, a, "ceil", true)?;
            let down = e.op(Op::Neg, &[x], a.span)?;
            let whole = e.op(Op::Floor, &[down], a.span)?;
            Ok(Value::Tensor(e.op(Op::Neg, &[whole], a.span)?))
        },
    },
    Builtin {
        name: "round",
        params: "",
        doc: "The nearest whole number, halves to the even one.",
        lower: |e, a| real(e, a, Op::Round),
    },
    Builtin {
        name: "maximum",
        params: "y",
        doc: "The larger of each pair; `y` is a tensor or a number.",
        lower: |e, a| pair(e, a, Op::Maximum),
    },
    Builtin {
        name: "minimum",
        params: "y",
        doc: "The smaller of each pair; `y` is a tensor or a number.",
        lower: |e, a| pair(e, a, Op::Minimum),
    },
    Builtin { name: "clamp", params: "min, max", doc: "Values held between two numbers.", lower: clamp },
    Builtin { name: "silu", params: "", doc: "`x · sigmoid(x)`.", lower: |e, a| real(e, a, Op::Silu) },
    Builtin {
        name: "gelu",
        params: "",
        doc: "The Gaussian error linear unit, erf form.",
        lower: |e, a| real(e, a, Op::Gelu { approximate: false }),
    },
    Builtin {
        name: "gelu_tanh",
        params: "",
        doc: "The Gaussian error linear unit, tanh form.",
        lower: |e, a| real(e, a, Op::Gelu { approximate: true }),
    },
    Builtin {
        name: "quick_gelu", params: "", doc: "`x · sigmoid(1.702 x)`.", lower: |e, a| real(e, a, Op::QuickGelu)
    },
    Builtin { name: "relu", params: "", doc: "`max(x, 0)`.", lower: |e, a| number(e, a, Op::Relu) },
    Builtin {
        name: "leaky_relu",
        params: "slope",
        doc: "`x` where it is positive, else `slope · x`.",
        lower: |e, a| {
            let slope = finite(e, a, 0)?;
            real(e, a, Op::LeakyRelu { slope: slope.into() })
        },
    },
    Builtin { name: "sigmoid", params: "", doc: "`1 / (1 + exp(-x))`.", lower: |e, a| real(e, a, Op::Sigmoid) },
    Builtin { name: "tanh", params: "", doc: "The hyperbolic tangent.", lower: |e, a| real(e, a, Op::Tanh) },
    Builtin { name: "softplus", params: "", doc: "`log(1 + exp(x))`.", lower: |e, a| real(e, a, Op::Softplus) },
    Builtin {
        name: "softmax",
        params: "[axis]",
        doc: "Exponentials that sum to 1 along `axis`, the last by default.",
        lower: |e, a| {
            let x = operand(e, a, "softmax", true)?;
            let dim = a.axis_or(e, 0, e.dims(x).len(), -1)? as i32;
            Ok(Value::Tensor(e.op(Op::Softmax { dim }, &[x], a.span)?))
        },
    },
    Builtin {
        name: "log_softmax",
        params: "[axis]",
        doc: "The logarithm of `softmax`, without its loss of small values.",
        lower: log_softmax,
    },
    Builtin {
        name: "eq",
        params: "y",
        doc: "Truth values of `x = y`; `y` is a tensor or a number.",
        lower: |e, a| binary(e, a, BinaryOp::Eq),
    },
    Builtin { name: "ne", params: "y", doc: "Truth values of `x ≠ y`.", lower: |e, a| binary(e, a, BinaryOp::Ne) },
    Builtin { name: "lt", params: "y", doc: "Truth values of `x < y`.", lower: |e, a| binary(e, a, BinaryOp::Lt) },
    Builtin { name: "le", params: "y", doc: "Truth values of `x ≤ y`.", lower: |e, a| binary(e, a, BinaryOp::Le) },
    Builtin { name: "gt", params: "y", doc: "Truth values of `x > y`.", lower: |e, a| binary(e, a, BinaryOp::Gt) },
    Builtin { name: "ge", params: "y", doc: "Truth values of `x ≥ y`.", lower: |e, a| binary(e, a, BinaryOp::Ge) },
    Builtin { name: "and", params: "y", doc: "Truth values of both.", lower: |e, a| logical(e, a, BinaryOp::And) },
    Builtin {
        name: "or",
        params: "y",
        doc: "Truth values of at least one.",
        lower: |e, a| logical(e, a, BinaryOp::Or),
    },
    Builtin {
        name: "not",
        params: "",
        doc: "The other truth values.",
        lower: |e, a| {
            let x = truths(e, a, "not")?;
            Ok(Value::Tensor(e.op(Op::Not, &[x], a.span)?))
        },
    },
    Builtin {
        name: "select_from",
        params: "a, b",
        doc: "Of truth values: `a` where true, else `b`; tensors or numbers, and all three broadcast.",
        lower: |e, a| {
            let condition = truths(e, a, "select_from")?;
            choose(e, a, condition, 0)
        },
    },
    Builtin {
        name: "where_",
        params: "a, b",
        doc: "As `select_from`.",
        lower: |e, a| {
            let condition = truths(e, a, "where_")?;
            choose(e, a, condition, 0)
        },
    },
    Builtin {
        name: "masked_fill",
        params: "mask, value",
        doc: "`value` where the truth values `mask` hold, else `x`.",
        lower: |e, a| {
            let x = a.this(e)?;
            let mask = a.tensor(e, 0)?;
            is_truth(e, mask, "masked_fill", a.at(0))?;
            let (value, x) = e.pair(a.value(1), &Value::Tensor(x), a.at(1))?;
            Ok(Value::Tensor(e.op(Op::Select, &[mask, value, x], a.span)?))
        },
    },
];

/// The receiver, whose element type must be a number; a real one where `real` says so.
fn operand(e: &mut Evaluator<'_>, a: &Args, name: &str, real: bool) -> Eval<Node> {
    let x = a.this(e)?;
    let ty = e.ty(x);
    let fits = if real { is_float(ty.dtype) } else { ty.dtype != DType::Bool };
    if fits {
        return Ok(x);
    }
    let wanted = if real { "real numbers" } else { "numbers" };
    let d = Diagnostic::new(Code::Type, at(a), format!("`{name}` takes {wanted}, and this is {ty}")).label("on this");
    Err(d.help("change the element type with `.cast(\"f32\")`").into())
}

/// Where the receiver stands.
fn at(a: &Args) -> Span {
    a.receiver.as_ref().map_or(a.span, |(_, span)| *span)
}

fn name(op: &Op) -> String {
    op.name().to_lowercase()
}

fn real(e: &mut Evaluator<'_>, a: &Args, op: Op) -> Eval {
    let x = operand(e, a, &name(&op), true)?;
    Ok(Value::Tensor(e.op(op, &[x], a.span)?))
}

fn number(e: &mut Evaluator<'_>, a: &Args, op: Op) -> Eval {
    let x = operand(e, a, &name(&op), false)?;
    Ok(Value::Tensor(e.op(op, &[x], a.span)?))
}

/// The receiver as a value.
fn this(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    a.this(e).map(Value::Tensor)
}

/// Argument `i`, which is a tensor or a number.
fn other(e: &mut Evaluator<'_>, a: &Args, i: usize) -> Eval {
    match e.deref(a.value(i).clone()) {
        value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Size(_)) => Ok(value),
        value => e.to_node(&value, a.at(i)).map(Value::Tensor),
    }
}

fn binary(e: &mut Evaluator<'_>, a: &Args, op: BinaryOp) -> Eval {
    let (x, y) = (this(e, a)?, other(e, a, 0)?);
    e.tensor_binary(op, &x, &y, a.span)
}

fn logical(e: &mut Evaluator<'_>, a: &Args, op: BinaryOp) -> Eval {
    let (x, y) = (this(e, a)?, other(e, a, 0)?);
    e.tensor_logical(op, &x, &y, a.span)
}

fn pair(e: &mut Evaluator<'_>, a: &Args, op: Op) -> Eval {
    let (x, y) = (this(e, a)?, other(e, a, 0)?);
    let (x, y) = e.pair(&x, &y, a.at(0))?;
    Ok(Value::Tensor(e.op(op, &[x, y], a.span)?))
}

fn scaled(e: &mut Evaluator<'_>, a: &Args, by: impl Fn(f64) -> f64) -> Eval {
    let x = this(e, a)?;
    let factor = by(a.float(e, 0)?);
    e.tensor_binary(BinaryOp::Mul, &x, &Value::Float(factor), a.span)
}

/// Argument `i`, a finite number.
fn finite(e: &Evaluator<'_>, a: &Args, i: usize) -> Eval<f32> {
    let x = a.float(e, i)? as f32;
    if x.is_finite() { Ok(x) } else { Err(a.wrong(i, format!("expected a finite number, found {x}"))) }
}

fn clamp(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = operand(e, a, "clamp", false)?;
    let (min, max) = (a.float(e, 0)?, a.float(e, 1)?);
    if min.is_nan() || max.is_nan() || min > max {
        return Err(a.wrong(0, format!("the lower bound is {min} and the upper one {max}")));
    }
    let bound = |x: f64| x.is_finite().then_some((x as f32).into());
    Ok(Value::Tensor(e.op(Op::Clamp { min: bound(min), max: bound(max) }, &[x], a.span)?))
}

/// `x - max - log(Σ exp(x - max))`
fn log_softmax(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    use tallow_ir::ops::Reduction;
    let x = operand(e, a, "log_softmax", true)?;
    let axis = a.axis_or(e, 0, e.dims(x).len(), -1)? as i64;
    let over = |how| Op::Reduce { how, axes: vec![axis], keep: true };
    let top = e.op(over(Reduction::Max), &[x], a.span)?;
    let below = e.op(Op::Sub, &[x, top], a.span)?;
    let powers = e.op(Op::Exp, &[below], a.span)?;
    let sum = e.op(over(Reduction::Sum), &[powers], a.span)?;
    let log = e.op(Op::Log, &[sum], a.span)?;
    Ok(Value::Tensor(e.op(Op::Sub, &[below, log], a.span)?))
}

/// The receiver, which holds truth values.
fn truths(e: &mut Evaluator<'_>, a: &Args, name: &str) -> Eval<Node> {
    let x = a.this(e)?;
    is_truth(e, x, name, at(a))?;
    Ok(x)
}

fn is_truth(e: &Evaluator<'_>, x: Node, name: &str, span: Span) -> Eval<()> {
    let ty = e.ty(x);
    if ty.dtype == DType::Bool {
        return Ok(());
    }
    let d = Diagnostic::new(Code::Type, span, format!("`{name}` chooses by truth values, and this is {ty}"));
    Err(d.label("no truth values").help("make them by a comparison, as in `x.gt(0.0)`").into())
}

/// `condition ? a : b`, from argument `i` on.
fn choose(e: &mut Evaluator<'_>, a: &Args, condition: Node, i: usize) -> Eval {
    let (x, y) = (other(e, a, i)?, other(e, a, i + 1)?);
    let (x, y) = match (&x, &y) {
        (Value::Tensor(_), _) | (_, Value::Tensor(_)) => e.pair(&x, &y, a.span)?,
        // Two numbers: real ones unless both are whole.
        (Value::Int(_), Value::Int(_)) => (e.to_node(&x, a.at(i))?, e.to_node(&y, a.at(i + 1))?),
        _ => {
            let x = Value::Float(a.float(e, i)?);
            let y = Value::Float(a.float(e, i + 1)?);
            (e.to_node(&x, a.at(i))?, e.to_node(&y, a.at(i + 1))?)
        }
    };
    Ok(Value::Tensor(e.op(Op::Select, &[condition, x, y], a.span)?))
}

impl Evaluator<'_> {
    /// `x · y` as one operation, where one of them is a gate that has just been activated and nothing else reads it.
    /// The first operand is the gate where both could be.
    pub(crate) fn gated_product(&mut self, x: Node, y: Node, span: Span) -> Eval<Option<Node>> {
        let build = self.build(span)?;
        let same = build.graph.try_ty(x).ok() == build.graph.try_ty(y).ok();
        for (active, up) in [(x, y), (y, x)] {
            let tallow_ir::NodeKind::Op(op) = &build.graph.node(active.node).kind else { continue };
            let fused = match op {
                Op::Silu => Op::SwiGlu,
                Op::Gelu { approximate: false } => Op::GeGlu,
                _ => continue,
            };
            let read = !build.graph.readers(active).is_empty() || active == up;
            if !same || read {
                continue;
            }
            let Some(&gate) = build.graph.operands(active.node).first() else { continue };
            return self.op(fused, &[gate, up], span).map(Some);
        }
        Ok(None)
    }
}
