//! New tensors.

use super::sizes::whole;
use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::{DType, Dim, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[];

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "zeros",
        params: "sizes",
        doc: "f32 zeros of these sizes, or of the shape of a tensor.",
        lower: |e, a| filled(e, a, 0.0),
    },
    Builtin {
        name: "ones",
        params: "sizes",
        doc: "f32 ones of these sizes, or of the shape of a tensor.",
        lower: |e, a| filled(e, a, 1.0),
    },
    Builtin {
        name: "full",
        params: "sizes, value",
        doc: "f32, one number everywhere, of these sizes or of the shape of a tensor.",
        lower: |e, a| {
            let value = a.float(e, 1)?;
            filled(e, a, value as f32)
        },
    },
    Builtin {
        name: "from",
        params: "numbers[, sizes]",
        doc: "A list of numbers, which may be nested, as a tensor: i64 where all are whole and written so, else f32; `[n]` unless sizes are given or nested lists tell them.",
        lower: from,
    },
    Builtin {
        name: "arange",
        params: "n[, end]",
        doc: "i64: 0, 1, … n − 1; with `end`, n, n + 1, … end − 1. The number may be a size that only running tells.",
        lower: arange,
    },
    Builtin {
        name: "randn",
        params: "sizes",
        doc: "Independent standard normal numbers of these sizes, or in the shape of a tensor; the session's seed decides which.",
        lower: randn,
    },
    Builtin {
        name: "randn_video",
        params: "sizes",
        doc: "Standard normal noise for a video: `[N, C, D, H, W]`.",
        lower: |e, a| {
            let like = like(e, a)?;
            e.ranked(like, "[N, C, D, H, W]", a.at(0))?;
            Ok(Value::Tensor(e.op(Op::RandomNormal { seed: 0 }, &[like], a.span)?))
        },
    },
    Builtin {
        name: "timestep",
        params: "t, dim",
        doc: "Sinusoidal embedding of a step, a number or `[n]`: `[1, dim]` or `[n, dim]`, cosines of `t · 10000^(−2j/dim)`, j = 0 … dim/2 − 1, in the first half, sines in the second.",
        lower: timestep,
    },
    Builtin {
        name: "positions",
        params: "x",
        doc: "i64 `[S]`: the positions of this call's tokens in the whole text, for ids `[S]` or rows `[…, S, D]`.",
        lower: |e, a| {
            let x = a.tensor(e, 0)?;
            Ok(Value::Tensor(e.positions(x, a.span)?))
        },
    },
];

impl Evaluator<'_> {
    /// The positions of this call's tokens, i64 `[S]`: those of ids `[S]` or of rows `[…, S, D]`.
    pub(crate) fn positions(&mut self, x: Node, span: Span) -> Eval<Node> {
        let axis = self.dims(x).len().saturating_sub(2) as i32;
        let numbers = self.op(Op::Iota { axis }, &[x], span)?;
        let pos = self.build(span)?.graph.pos();
        let pos = pos.map_err(|error| self.rule(error, &[], span))?;
        self.op(Op::Add, &[numbers, pos], span)
    }
}

/// The sizes of the first argument, or those of a tensor.
fn sizes(e: &mut Evaluator<'_>, a: &Args) -> Eval<Vec<Dim>> {
    if e.is_tensor(a.value(0)) {
        let x = a.tensor(e, 0)?;
        return Ok(e.dims(x));
    }
    a.shape(e, 0)
}

fn filled(e: &mut Evaluator<'_>, a: &Args, value: f32) -> Eval {
    let sizes = sizes(e, a)?;
    Ok(Value::Tensor(e.full_of(DType::F32, &sizes, value, a.span)?))
}

fn from(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let value = e.deref(a.value(0).clone());
    if e.is_tensor(&value) || e.is_host(&value) {
        let x = match e.is_host(&value) {
            true => e.host_tensor(&value, None, 1, a.at(0))?,
            false => e.to_node(&value, a.at(0))?,
        };
        let sizes = if a.has(1) { a.sizes(e, 1)? } else { return Ok(Value::Tensor(x)) };
        return Ok(Value::Tensor(e.reshape_to(x, &sizes, a.span)?));
    }
    let (mut numbers, mut shape) = (Vec::new(), Vec::new());
    flat(e, a, &value, 0, &mut numbers, &mut shape)?;
    let x = e.to_node(&Value::list(numbers), a.at(0))?;
    let sizes = match a.has(1) {
        true => a.sizes(e, 1)?,
        false => shape.into_iter().map(|n| Some(Dim::constant(n as i64))).collect(),
    };
    Ok(Value::Tensor(e.reshape_to(x, &sizes, a.span)?))
}

/// The numbers of nested lists of one shape.
fn flat(
    e: &Evaluator<'_>,
    a: &Args,
    value: &Value,
    depth: usize,
    out: &mut Vec<Value>,
    shape: &mut Vec<usize>,
) -> Eval<()> {
    let (Value::List(items) | Value::Tuple(items)) = e.deref(value.clone()) else {
        if depth != shape.len() {
            return Err(a.wrong(0, "these lists are not nested equally deep"));
        }
        out.push(e.deref(value.clone()));
        return Ok(());
    };
    match shape.get(depth) {
        None if out.is_empty() && depth < tallow_ir::ops::MAX_RANK => shape.push(items.len()),
        Some(&n) if n == items.len() => {}
        Some(&n) => return Err(a.wrong(0, format!("lists of {n} and of {} numbers beside each other", items.len()))),
        None => return Err(a.wrong(0, "these lists are not nested equally deep")),
    }
    items.iter().try_for_each(|v| flat(e, a, v, depth + 1, out, shape))
}

fn arange(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (start, end) = if a.has(1) { (a.int(e, 0)?, a.dim(e, 1)?) } else { (0, a.dim(e, 0)?) };
    let Some(count) = end.sub(&Dim::constant(start)) else { return Err(a.wrong(0, "these numbers are too large")) };
    if let Some(n) = count.as_const().filter(|n| *n < 1) {
        return Err(a.wrong(0, format!("a row of {n} numbers")));
    }
    let mut x = e.iota(&count, a.span)?;
    if start != 0 {
        x = e.op(Op::AddScalar { value: whole(start, a.at(0))?.into() }, &[x], a.span)?;
    }
    Ok(Value::Tensor(x))
}

/// A tensor of the shape that is asked for.
fn like(e: &mut Evaluator<'_>, a: &Args) -> Eval<Node> {
    if e.is_tensor(a.value(0)) {
        return a.tensor(e, 0);
    }
    let sizes = a.shape(e, 0)?;
    e.full_of(DType::F32, &sizes, 0.0, a.span)
}

fn randn(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let like = like(e, a)?;
    Ok(Value::Tensor(e.op(Op::RandomNormal { seed: 0 }, &[like], a.span)?))
}

fn timestep(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let dim = a.count(e, 1)?;
    if dim % 2 != 0 {
        return Err(a.wrong(1, format!("expected an even number, found {dim}")));
    }
    let half = dim as usize / 2;
    e.make(dim as usize, a.at(1))?;
    let frequencies: Vec<f64> = (0..half).map(|j| (-(10000f64.ln()) * j as f64 / half as f64).exp()).collect();
    if let Value::Int(_) | Value::Float(_) = e.deref(a.value(0).clone()) {
        let t = a.float(e, 0)?;
        let cosines = frequencies.iter().map(|f| (t * f).cos() as f32);
        let values = cosines.chain(frequencies.iter().map(|f| (t * f).sin() as f32)).collect();
        return Ok(Value::Tensor(e.filled(DType::F32, &[1, dim.into()], values, a.span)?));
    }
    let mut t = a.tensor(e, 0)?;
    let ty = e.ty(t);
    if ty.shape.rank() > 1 {
        let d = Diagnostic::new(Code::Rank, a.at(0), "a step is a number, or a list of them `[n]`");
        return Err(d.label(format!("this is {ty}")).into());
    }
    if ty.dtype.computes_as() != DType::F32 {
        t = e.op(Op::Cast { dtype: DType::F32 }, &[t], a.span)?;
    }
    let column = e.op(Op::Reshape { shape: vec![-1, 1] }, &[t], a.span)?;
    let row = e.filled(DType::F32, &[1, half as i64], frequencies.iter().map(|f| *f as f32).collect(), a.span)?;
    let angles = e.op(Op::Mul, &[column, row], a.span)?;
    let (cosines, sines) = (e.op(Op::Cos, &[angles], a.span)?, e.op(Op::Sin, &[angles], a.span)?);
    Ok(Value::Tensor(e.op(Op::Concat { axis: 1 }, &[cosines, sines], a.span)?))
}
