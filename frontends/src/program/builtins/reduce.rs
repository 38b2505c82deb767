//! Sums, means and choices along dimensions.

use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::build::is_float;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::module::Sampling;
use crate::program::value::Value;
use tallow_ir::ops::Reduction;
use tallow_ir::{DType, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "sum",
        params: "[axes]",
        doc: "The sum along a dimension or a list of them, which drop out; of all elements without `axes`.",
        lower: |e, a| reduce(e, a, Reduction::Sum, false),
    },
    Builtin {
        name: "sum_keep",
        params: "[axes]",
        doc: "As `sum`, with the dimensions kept as 1.",
        lower: |e, a| reduce(e, a, Reduction::Sum, true),
    },
    Builtin {
        name: "mean",
        params: "[axes]",
        doc: "The mean along a dimension or a list of them, which drop out; of all elements without `axes`.",
        lower: |e, a| reduce(e, a, Reduction::Mean, false),
    },
    Builtin {
        name: "mean_keep",
        params: "[axes]",
        doc: "As `mean`, with the dimensions kept as 1.",
        lower: |e, a| reduce(e, a, Reduction::Mean, true),
    },
    Builtin {
        name: "max",
        params: "[axes]",
        doc: "The largest along a dimension or a list of them, which drop out; of all elements without `axes`.",
        lower: |e, a| reduce(e, a, Reduction::Max, false),
    },
    Builtin {
        name: "max_keep",
        params: "[axes]",
        doc: "As `max`, with the dimensions kept as 1.",
        lower: |e, a| reduce(e, a, Reduction::Max, true),
    },
    Builtin {
        name: "min",
        params: "[axes]",
        doc: "The smallest along a dimension or a list of them, which drop out; of all elements without `axes`.",
        lower: |e, a| reduce(e, a, Reduction::Min, false),
    },
    Builtin {
        name: "min_keep",
        params: "[axes]",
        doc: "As `min`, with the dimensions kept as 1.",
        lower: |e, a| reduce(e, a, Reduction::Min, true),
    },
    Builtin {
        name: "prod",
        params: "[axes]",
        doc: "The product along a dimension or a list of them, which drop out; of all elements without `axes`.",
        lower: |e, a| reduce(e, a, Reduction::Product, false),
    },
    Builtin {
        name: "var",
        params: "[axes]",
        doc: "The mean of the squared distances from the mean (divided by n, not n - 1) along a dimension or a list of them, which drop out.",
        lower: |e, a| variance(e, a, false),
    },
    Builtin {
        name: "var_keep",
        params: "[axes]",
        doc: "As `var`, with the dimensions kept as 1.",
        lower: |e, a| variance(e, a, true),
    },
    Builtin {
        name: "mean_pool",
        params: "",
        doc: "The mean over the next-to-last dimension: `[S, D]` → `[D]`, `[N, S, D]` → `[N, D]`.",
        lower: |e, a| {
            let x = a.this(e)?;
            let axis = rows_axis(e, a, x, 2, "mean_pool")?;
            over(e, x, Reduction::Mean, vec![axis as i64], false, a).map(Value::Tensor)
        },
    },
    Builtin {
        name: "last",
        params: "",
        doc: "The last row: the end of the next-to-last dimension, which drops out. `[S, D]` → `[D]`, `[N, S, D]` → `[N, D]`; of `[S]` the element.",
        lower: |e, a| end_row(e, a, true),
    },
    Builtin {
        name: "first",
        params: "",
        doc: "The first row: the start of the next-to-last dimension, which drops out. `[S, D]` → `[D]`, `[N, S, D]` → `[N, D]`; of `[S]` the element.",
        lower: |e, a| end_row(e, a, false),
    },
    Builtin {
        name: "cumsum",
        params: "axis",
        doc: "Sums of the elements up to each along `axis`, itself included.",
        lower: |e, a| {
            let x = numbers(e, a, "cumsum")?;
            let axis = a.axis(e, 0, e.dims(x).len())? as i32;
            Ok(Value::Tensor(e.op(Op::CumSum { axis }, &[x], a.span)?))
        },
    },
    Builtin {
        name: "norm_l2",
        params: "[axis]",
        doc: "`x / max(√Σx², 1e-12)` along `axis`, the last by default.",
        lower: norm_l2,
    },
    Builtin {
        name: "argmax",
        params: "[axis]",
        doc: "The index of the first largest value along `axis`, the last by default, as i64; the dimension drops out. In a loop that appends it to a list of ids, that of a row of logits is a sampled token, as by `sample_greedy`.",
        lower: |e, a| {
            let x = numbers(e, a, "argmax")?;
            let rank = e.dims(x).len();
            let dim = a.axis_or(e, 0, rank, -1)? as i32;
            if rank == 1 && e.samples_by_argmax() {
                return e.note_sampled(x, Sampling::greedy(), a.span);
            }
            Ok(Value::Tensor(e.op(Op::Argmax { dim }, &[x], a.span)?))
        },
    },
    Builtin {
        name: "argmin",
        params: "[axis]",
        doc: "The index of the first smallest value along `axis`, the last by default, as i64; the dimension drops out.",
        lower: |e, a| {
            let x = numbers(e, a, "argmin")?;
            let dim = a.axis_or(e, 0, e.dims(x).len(), -1)? as i32;
            let minus = e.op(Op::Neg, &[x], a.span)?;
            Ok(Value::Tensor(e.op(Op::Argmax { dim }, &[minus], a.span)?))
        },
    },
    Builtin {
        name: "topk",
        params: "k",
        doc: "The `k` largest values along the last dimension, descending, and their indices: a pair, which may be the result.",
        lower: top_k,
    },
];

/// The receiver, which holds numbers.
fn numbers(e: &mut Evaluator<'_>, a: &Args, name: &str) -> Eval<Node> {
    let x = a.this(e)?;
    let ty = e.ty(x);
    if ty.dtype != DType::Bool {
        return Ok(x);
    }
    let d =
        Diagnostic::new(Code::Type, at(a), format!("`{name}` takes numbers, and this is {ty}")).label("truth values");
    Err(d.help("make numbers of them with `.cast(\"f32\")`").into())
}

fn at(a: &Args) -> Span {
    a.receiver.as_ref().map_or(a.span, |(_, span)| *span)
}

/// The axes that argument 0 names, each once; none where it is not given.
fn axes(e: &mut Evaluator<'_>, a: &Args, rank: usize) -> Eval<Vec<i64>> {
    if !a.has(0) {
        return Ok(Vec::new());
    }
    let mut found: Vec<i64> = Vec::new();
    for axis in a.ints(e, 0)? {
        let axis = a.axis_in(axis, 0, rank)? as i64;
        if found.contains(&axis) {
            let d = Diagnostic::new(Code::Axis, a.at(0), format!("dimension {axis} is named twice"));
            return Err(d.into());
        }
        found.push(axis);
    }
    if found.is_empty() {
        return Err(a.wrong(0, "an empty list names no dimension; leave it out for all of them"));
    }
    Ok(found)
}

fn over(e: &mut Evaluator<'_>, x: Node, how: Reduction, axes: Vec<i64>, keep: bool, a: &Args) -> Eval<Node> {
    let ty = e.ty(x);
    if how == Reduction::Mean && !is_float(ty.dtype) {
        let d = Diagnostic::new(Code::Type, at(a), format!("a mean needs real numbers, and this is {ty}"));
        return Err(d.label("no real numbers").help("change the element type with `.cast(\"f32\")`").into());
    }
    e.op(Op::Reduce { how, axes, keep }, &[x], a.span)
}

fn reduce(e: &mut Evaluator<'_>, a: &Args, how: Reduction, keep: bool) -> Eval {
    let x = numbers(e, a, "a reduction")?;
    let axes = axes(e, a, e.dims(x).len())?;
    over(e, x, how, axes, keep, a).map(Value::Tensor)
}

fn variance(e: &mut Evaluator<'_>, a: &Args, keep: bool) -> Eval {
    let x = a.this(e)?;
    let axes = axes(e, a, e.dims(x).len())?;
    let mean = over(e, x, Reduction::Mean, axes.clone(), true, a)?;
    let off = e.op(Op::Sub, &[x, mean], a.span)?;
    let square = e.op(Op::Mul, &[off, off], a.span)?;
    over(e, square, Reduction::Mean, axes, keep, a).map(Value::Tensor)
}

/// The next-to-last dimension, or the only one, of a tensor of at least `least` dimensions.
fn rows_axis(e: &Evaluator<'_>, a: &Args, x: Node, least: usize, name: &str) -> Eval<usize> {
    let ty = e.ty(x);
    let rank = ty.shape.rank();
    if rank >= least.max(1) {
        return Ok(rank.saturating_sub(2));
    }
    let d = Diagnostic::new(Code::Rank, at(a), format!("`{name}` works along rows, and this is {ty}"));
    Err(d.label(format!("needs at least {least} dimension{}", if least == 1 { "" } else { "s" })).into())
}

fn end_row(e: &mut Evaluator<'_>, a: &Args, last: bool) -> Eval {
    let x = a.this(e)?;
    let axis = rows_axis(e, a, x, 1, if last { "last" } else { "first" })?;
    let (start, end) = if last { (-1, i64::MAX) } else { (0, 1) };
    let row = e.op(Op::Slice { axis: axis as u32, start, end }, &[x], a.span)?;
    let y = e.op(Op::Squeeze { axes: vec![axis as i64] }, &[row], a.span)?;
    if last && e.dims(x).len() == 2 {
        e.build(a.span)?.last_rows.insert(y, x);
    }
    Ok(Value::Tensor(y))
}

fn norm_l2(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let axis = a.axis_or(e, 0, e.dims(x).len(), -1)? as i64;
    let square = e.op(Op::Mul, &[x, x], a.span)?;
    let sum = e.op(Op::Reduce { how: Reduction::Sum, axes: vec![axis], keep: true }, &[square], a.span)?;
    let length = e.op(Op::Sqrt, &[sum], a.span)?;
    let length = e.op(Op::Clamp { min: Some(1e-12.into()), max: None }, &[length], a.span)?;
    Ok(Value::Tensor(e.op(Op::Div, &[x, length], a.span)?))
}

fn top_k(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = numbers(e, a, "topk")?;
    let k = a.count(e, 0)?;
    let ty = e.ty(x);
    match ty.shape.last().map(|d| d.as_const()) {
        None => {
            let d = Diagnostic::new(
                Code::Rank,
                at(a),
                format!("`topk` chooses along the last dimension, and this is {ty}"),
            );
            return Err(d.label("a single number").into());
        }
        Some(Some(n)) if n < i64::from(k) => {
            let d = Diagnostic::new(Code::Shape, a.at(0), format!("the {k} largest of {n} values"));
            return Err(d.label(format!("`k` is {k}")).help(format!("this is {ty}; ask for at most {n}")).into());
        }
        Some(_) => {}
    }
    match e.ops(Op::TopK { axis: -1, k }, &[x], a.span)?.as_slice() {
        &[values, index] => Ok(Value::TopK { values, index }),
        _ => Err(a.wrong(0, "TopK gives two results")),
    }
}
