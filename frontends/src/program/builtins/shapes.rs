//! Reshaping, joining, cutting: nothing here computes.

use super::sizes::{Wanted, whole};
use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;
use tallow_ir::ops::PadMode;
use tallow_ir::{DType, Dim, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "reshape",
        params: "sizes",
        doc: "The same elements in row-major order in another shape; one size may be -1. As the first use of an input it tells its shape, and every -1 is a size that is known only when running.",
        lower: reshape,
    },
    Builtin {
        name: "permute",
        params: "axes",
        doc: "Dimension `i` of the result is dimension `axes[i]`.",
        lower: permute,
    },
    Builtin {
        name: "transpose",
        params: "[a, b]",
        doc: "Two dimensions exchanged; the last two unless given.",
        lower: transpose,
    },
    Builtin {
        name: "unsqueeze",
        params: "axis",
        doc: "With a new dimension of size 1, which stands at `axis` of the result.",
        lower: unsqueeze,
    },
    Builtin {
        name: "squeeze",
        params: "[axes]",
        doc: "Without a dimension of size 1, or several; all of them unless given.",
        lower: squeeze,
    },
    Builtin {
        name: "flatten",
        params: "[start, end]",
        doc: "Dimensions `start` to `end`, both included, as one; all unless given.",
        lower: flatten,
    },
    Builtin {
        name: "expand",
        params: "sizes",
        doc: "Dimensions of size 1 repeated to `sizes`, where -1 keeps a size; new dimensions may lead.",
        lower: |e, a| {
            let (x, sizes) = (a.this(e)?, a.sizes(e, 0)?);
            Ok(Value::Tensor(e.expand_to(x, &sizes, a.span)?))
        },
    },
    Builtin {
        name: "repeat",
        params: "times",
        doc: "The whole tensor so many times in each dimension, one after another; new dimensions may lead.",
        lower: repeat,
    },
    Builtin {
        name: "repeat_each",
        params: "n, axis",
        doc: "Each element along `axis` `n` times in a row.",
        lower: repeat_each,
    },
    Builtin {
        name: "flip",
        params: "axes",
        doc: "Elements in reverse order along one dimension, or several.",
        lower: flip,
    },
    Builtin {
        name: "pad",
        params: "sizes[, mode, value]",
        doc: "Elements put before and after: `[before, after]` of the last dimension, then of the one before it, and so on; negative numbers cut. `mode` is `\"constant\"` (with `value`, 0 unless given), `\"reflect\"` or `\"replicate\"`.",
        lower: pad,
    },
    Builtin {
        name: "concat",
        params: "others, axis",
        doc: "This tensor and another, or a list of others, one after another along `axis`.",
        lower: |e, a| {
            let mut parts = vec![a.this(e)?];
            match e.deref(a.value(0).clone()) {
                Value::List(_) | Value::Tuple(_) => parts.extend(a.tensors(e, 0)?),
                _ => parts.push(a.tensor(e, 0)?),
            }
            concat(e, a, &parts)
        },
    },
    Builtin {
        name: "split",
        params: "sizes, axis",
        doc: "A list of parts of these sizes along `axis`; of one number, parts of that size and a last one that may be smaller.",
        lower: split,
    },
    Builtin { name: "chunk", params: "n, axis", doc: "A list of `n` equal parts along `axis`.", lower: chunk },
    Builtin {
        name: "select",
        params: "axis, index",
        doc: "The elements at `index` of a dimension, which drops out; negative counts from the end.",
        lower: select,
    },
    Builtin {
        name: "slice",
        params: "axis, start[, end]",
        doc: "Elements `start..end` along `axis`, to the end unless given; negative counts from the end, and what lies past it is cut off where the size is known.",
        lower: slice,
    },
    Builtin {
        name: "gather",
        params: "axis, index",
        doc: "Elements along `axis` by an index tensor or list, whose shape takes the place of that dimension.",
        lower: |e, a| gather(e, a, |axis| Op::Gather { axis }),
    },
    Builtin {
        name: "gather_elements",
        params: "axis, index",
        doc: "For each place of `index`, the element at that place but for `axis`, where the index tells it.",
        lower: |e, a| gather(e, a, |axis| Op::GatherElements { axis }),
    },
    Builtin {
        name: "shape",
        params: "",
        doc: "The list of sizes; those that only running tells stay symbols, which `+ - * /` work on.",
        lower: |e, a| {
            let x = a.this(e)?;
            Ok(Value::list(e.dims(x).iter().map(Value::size).collect()))
        },
    },
    Builtin {
        name: "dim",
        params: "axis",
        doc: "The size of one dimension.",
        lower: |e, a| {
            let x = a.this(e)?;
            let dims = e.dims(x);
            let axis = a.axis(e, 0, dims.len())?;
            Ok(Value::size(&dims[axis]))
        },
    },
    Builtin {
        name: "rank",
        params: "",
        doc: "The number of dimensions.",
        lower: |e, a| {
            let x = a.this(e)?;
            Ok(Value::len(e.dims(x).len()))
        },
    },
    Builtin {
        name: "len",
        params: "",
        doc: "The first size.",
        lower: |e, a| {
            let x = a.this(e)?;
            match e.dims(x).first() {
                Some(dim) => Ok(Value::size(dim)),
                None => Err(Diagnostic::new(Code::Rank, a.name, "a number has no length").into()),
            }
        },
    },
    Builtin {
        name: "clone",
        params: "",
        doc: "The tensor itself.",
        lower: |_, a| match &a.receiver {
            Some((value, _)) => Ok(value.clone()),
            None => Err(Flow::Poisoned),
        },
    },
    Builtin {
        name: "cast",
        params: "type",
        doc: "The values as `\"f32\"`, `\"f16\"`, `\"bf16\"`, `\"i64\"`, `\"i32\"`, `\"i8\"`, `\"u8\"` or `\"bool\"`; to integers numbers are cut towards zero.",
        lower: cast,
    },
    Builtin {
        name: "to_vec",
        params: "",
        doc: "The numbers as a list, which ordinary code works on when the model runs.",
        lower: |e, a| {
            let mut x = a.this(e)?;
            // The ids of a program that generates are where its list of tokens begins.
            if e.build(a.span)?.tokens == Some(x) && e.samples_anywhere() {
                return Ok(Value::Tokens);
            }
            if e.dims(x).is_empty() {
                x = e.op(Op::Reshape { shape: vec![1] }, &[x], a.span)?;
            }
            e.tensor_to_host(x, a.span)
        },
    },
];

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "concat",
        params: "parts, axis",
        doc: "A list of tensors, one after another along `axis`.",
        lower: |e, a| {
            let parts = a.tensors(e, 0)?;
            concat(e, a, &parts)
        },
    },
    Builtin {
        name: "stack",
        params: "parts, axis",
        doc: "A list of tensors of one shape along a new dimension, which stands at `axis` of the result.",
        lower: stack,
    },
];

fn reshape(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let sizes = a.sizes(e, 0)?;
    let Some((value, span)) = a.receiver.clone() else { return Err(Flow::Poisoned) };
    if e.undeclared(&value, span)?.is_some() {
        return Ok(Value::Tensor(e.operand(&value, &sizes, a.span)?));
    }
    let x = e.to_node(&value, span)?;
    Ok(Value::Tensor(e.reshape_to(x, &sizes, a.span)?))
}

fn permute(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let rank = e.dims(x).len();
    let mut dims = Vec::with_capacity(rank);
    for axis in a.ints(e, 0)? {
        dims.push(a.axis_in(axis, 0, rank)? as u32);
    }
    permuted(e, x, dims, a.span)
}

fn permuted(e: &mut Evaluator<'_>, x: Node, dims: Vec<u32>, span: Span) -> Eval {
    let kept = dims.len() == e.dims(x).len() && dims.iter().enumerate().all(|(i, d)| i as u32 == *d);
    Ok(Value::Tensor(if kept { x } else { e.op(Op::Permute { dims }, &[x], span)? }))
}

fn transpose(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let ty = e.ty(x);
    let rank = ty.shape.rank();
    if rank < 2 && !a.has(0) {
        let d = Diagnostic::new(Code::Rank, a.name, "a tensor needs two dimensions to exchange");
        return Err(d.label(format!("this is {ty}")).into());
    }
    let (from, to) = (a.axis_or(e, 0, rank, -2)?, a.axis_or(e, 1, rank, -1)?);
    let mut dims: Vec<u32> = (0..rank as u32).collect();
    dims.swap(from, to);
    permuted(e, x, dims, a.span)
}

fn unsqueeze(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let axis = a.axis(e, 0, e.dims(x).len() + 1)?;
    Ok(Value::Tensor(e.op(Op::Unsqueeze { axes: vec![axis as i64] }, &[x], a.span)?))
}

fn squeeze(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let dims = e.dims(x);
    let axes = if a.has(0) {
        let mut axes = Vec::new();
        for axis in a.ints(e, 0)? {
            axes.push(a.axis_in(axis, 0, dims.len())? as i64);
        }
        axes
    } else {
        (0..dims.len() as i64).filter(|&i| dims[i as usize].as_const() == Some(1)).collect()
    };
    Ok(Value::Tensor(if axes.is_empty() { x } else { e.op(Op::Squeeze { axes }, &[x], a.span)? }))
}

fn flatten(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let rank = e.dims(x).len().max(1);
    let (start, end) = (a.axis_or(e, 0, rank, 0)?, a.axis_or(e, 1, rank, -1)?);
    Ok(Value::Tensor(e.op(Op::Flatten { start: start as i32, end: end as i32 }, &[x], a.span)?))
}

fn repeat(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (mut x, times) = (a.this(e)?, a.shape(e, 0)?);
    let rank = e.dims(x).len();
    let Some(new) = times.len().checked_sub(rank) else {
        let message = format!("{} numbers for a tensor of {rank} dimensions", times.len());
        return Err(Diagnostic::new(Code::Rank, a.at(0), message).label(format!("the tensor is {}", e.ty(x))).into());
    };
    if new > 0 {
        x = e.op(Op::Unsqueeze { axes: (0..new as i64).collect() }, &[x], a.span)?;
    }
    let one = Dim::constant(1);
    let mut known = Vec::with_capacity(times.len());
    for n in &times {
        known.push(match n.as_const() {
            Some(n) => u32::try_from(n).map_err(|_| a.wrong(0, format!("{n} times")))?,
            None => 1,
        });
    }
    if known.iter().any(|n| *n != 1) {
        x = e.op(Op::Tile { repeats: known }, &[x], a.span)?;
    }
    for (axis, n) in times.iter().enumerate().filter(|(_, n)| n.as_const().is_none() && **n != one) {
        x = spread(e, x, axis, axis, n, a.span)?;
    }
    Ok(Value::Tensor(x))
}

fn repeat_each(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (x, n) = (a.this(e)?, a.dim(e, 0)?);
    let axis = a.axis(e, 1, e.dims(x).len())?;
    Ok(Value::Tensor(match n.as_const() {
        Some(1) => x,
        Some(n) => {
            let times = u32::try_from(n).map_err(|_| a.wrong(0, format!("{n} times")))?;
            e.op(Op::RepeatEach { axis: axis as i32, times }, &[x], a.span)?
        }
        None => spread(e, x, axis, axis + 1, &n, a.span)?,
    }))
}

/// Elements along `axis` repeated `n` times, a number that only running tells: a new dimension at `at`, which then
/// joins the other.
fn spread(e: &mut Evaluator<'_>, x: Node, axis: usize, at: usize, n: &Dim, span: Span) -> Eval<Node> {
    let wide = e.op(Op::Unsqueeze { axes: vec![at as i64] }, &[x], span)?;
    let mut sizes: Vec<Wanted> = vec![None; e.dims(wide).len()];
    sizes[at] = Some(n.clone());
    let wide = e.expand_to(wide, &sizes, span)?;
    e.op(Op::Flatten { start: axis as i32, end: axis as i32 + 1 }, &[wide], span)
}

fn flip(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let rank = e.dims(x).len();
    let mut axes = Vec::new();
    for axis in a.ints(e, 0)? {
        axes.push(a.axis_in(axis, 0, rank)? as i64);
    }
    Ok(Value::Tensor(e.op(Op::Flip { axes }, &[x], a.span)?))
}

fn pad(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let mut x = a.this(e)?;
    let sizes = a.ints(e, 0)?;
    let rank = e.dims(x).len();
    if sizes.len() % 2 != 0 || sizes.len() > 2 * rank {
        let message =
            format!("{} numbers, expected two for each dimension that is padded, at most {}", sizes.len(), 2 * rank);
        return Err(Diagnostic::new(Code::Shape, a.at(0), message).label(format!("the tensor is {}", e.ty(x))).into());
    }
    let mode = if a.has(1) { a.text(e, 1)? } else { "constant".into() };
    let mode = match &*mode {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        other => return Err(a.wrong(1, format!("`{other}` is no mode; known are constant, reflect and replicate"))),
    };
    if mode != PadMode::Constant && a.has(2) {
        return Err(a.wrong(2, "a value goes with the mode `constant` alone"));
    }
    let value = a.float_or(e, 2, 0.0)? as f32;
    let mut pads = vec![0i64; 2 * rank];
    for (i, pair) in sizes.chunks_exact(2).enumerate() {
        let axis = rank - 1 - i;
        let [before, after] = [pair[0], pair[1]];
        pads[2 * axis] = before.max(0);
        pads[2 * axis + 1] = after.max(0);
        if before < 0 || after < 0 {
            let end = if after < 0 { after } else { i64::MAX };
            let op = Op::Slice { axis: axis as u32, start: before.min(0).saturating_neg(), end };
            x = e.op(op, &[x], a.span)?;
        }
    }
    if pads.iter().all(|n| *n == 0) {
        return Ok(Value::Tensor(x));
    }
    Ok(Value::Tensor(e.op(Op::Pad { mode, pads, value: value.into() }, &[x], a.span)?))
}

fn concat(e: &mut Evaluator<'_>, a: &Args, parts: &[Node]) -> Eval {
    let Some(&first) = parts.first() else { return Err(a.wrong(0, "no tensors to join")) };
    let axis = a.axis(e, 1, e.dims(first).len())?;
    if parts.len() == 1 {
        return Ok(Value::Tensor(first));
    }
    Ok(Value::Tensor(e.op(Op::Concat { axis: axis as u32 }, parts, a.span)?))
}

fn stack(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let mut parts = a.tensors(e, 0)?;
    let Some(&first) = parts.first() else { return Err(a.wrong(0, "no tensors to join")) };
    let axis = a.axis(e, 1, e.dims(first).len() + 1)?;
    for part in &mut parts {
        *part = e.op(Op::Unsqueeze { axes: vec![axis as i64] }, &[*part], a.span)?;
    }
    match parts.as_slice() {
        [one] => Ok(Value::Tensor(*one)),
        _ => Ok(Value::Tensor(e.op(Op::Concat { axis: axis as u32 }, &parts, a.span)?)),
    }
}

fn split(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let dims = e.dims(x);
    let axis = a.axis(e, 1, dims.len())?;
    let sizes: Vec<Dim> = match e.deref(a.value(0).clone()) {
        Value::List(_) | Value::Tuple(_) => a.shape(e, 0)?,
        _ => {
            let part = i64::from(a.count(e, 0)?);
            let Some(whole) = dims[axis].as_const() else {
                let message =
                    format!("dimension {axis} is {}, so the number of parts is known only when running", dims[axis]);
                return Err(Diagnostic::new(Code::RunTimeSize, a.at(0), message).help("give a list of sizes").into());
            };
            e.make(usize::try_from(whole / part).unwrap_or(0), a.span)?;
            (0..whole).step_by(part as usize).map(|at| Dim::constant(part.min(whole - at))).collect()
        }
    };
    let known: Option<Vec<u32>> = sizes.iter().map(|d| u32::try_from(d.as_const()?).ok()).collect();
    if let Some(sizes) = known {
        let parts = e.ops(Op::Split { axis: axis as u32, sizes }, &[x], a.span)?;
        return Ok(Value::list(parts.into_iter().map(Value::Tensor).collect()));
    }
    let mut start = Dim::constant(0);
    let mut parts = Vec::with_capacity(sizes.len());
    for size in &sizes {
        let end = start.add(size).ok_or_else(|| a.wrong(0, "these sizes are too large"))?;
        parts.push(Value::Tensor(cut(e, x, axis, &start, &end, a.span)?));
        start = end;
    }
    if start != dims[axis] {
        let message = format!("these sizes add up to {start}, and dimension {axis} is {}", dims[axis]);
        return Err(Diagnostic::new(Code::Shape, a.at(0), message).label("do not fit").into());
    }
    Ok(Value::list(parts))
}

fn chunk(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (x, chunks) = (a.this(e)?, a.count(e, 0)?);
    let axis = a.axis(e, 1, e.dims(x).len())?;
    e.make(chunks as usize, a.span)?;
    let parts = e.ops(Op::Chunk { axis: axis as u32, chunks }, &[x], a.span)?;
    Ok(Value::list(parts.into_iter().map(Value::Tensor).collect()))
}

fn select(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let dims = e.dims(x);
    let axis = a.axis(e, 0, dims.len())?;
    if e.is_tensor(a.value(1)) {
        let index = a.tensor(e, 1)?;
        return Ok(Value::Tensor(e.op(Op::Gather { axis: axis as i32 }, &[x, index], a.span)?));
    }
    let index = a.dim(e, 1)?;
    let start = match (index.as_const(), dims[axis].as_const()) {
        (Some(n), Some(size)) if n >= size || n < -size => {
            let message = format!("there is no element {n} along dimension {axis}, whose size is {size}");
            return Err(Diagnostic::new(Code::Index, a.at(1), message)
                .label(format!("the tensor is {}", e.ty(x)))
                .into());
        }
        (Some(n), _) if n < 0 => dims[axis].add(&Dim::constant(n)),
        _ => Some(index),
    };
    let end = start.as_ref().and_then(|n| n.add(&Dim::constant(1)));
    let (Some(start), Some(end)) = (start, end) else { return Err(a.wrong(1, "this number is too large")) };
    let one = cut(e, x, axis, &start, &end, a.span)?;
    Ok(Value::Tensor(e.op(Op::Squeeze { axes: vec![axis as i64] }, &[one], a.span)?))
}

fn slice(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let dims = e.dims(x);
    let axis = a.axis(e, 0, dims.len())?;
    let size = &dims[axis];
    let bound = |i: usize| -> Eval<Dim> {
        let dim = a.dim(e, i)?;
        Ok(match (dim.as_const(), size.as_const()) {
            (Some(n), Some(size)) if n < 0 => Dim::constant((n + size).max(0)),
            (Some(n), Some(size)) => Dim::constant(n.min(size)),
            (Some(n), None) if n < 0 => size.add(&dim).ok_or_else(|| a.wrong(i, "this number is too large"))?,
            _ => dim,
        })
    };
    let start = bound(1)?;
    let end = if a.has(2) { bound(2)? } else { size.clone() };
    if let (Some(from), Some(to)) = (start.as_const(), end.as_const())
        && from >= to
    {
        let message = format!("`{from}..{to}` along dimension {axis} leaves nothing");
        return Err(Diagnostic::new(Code::Index, a.span, message).label(format!("the tensor is {}", e.ty(x))).into());
    }
    Ok(Value::Tensor(cut(e, x, axis, &start, &end, a.span)?))
}

/// Elements `start..end` along a dimension; bounds that are symbols count from the end, or name the size of a tensor.
fn cut(e: &mut Evaluator<'_>, x: Node, axis: usize, start: &Dim, end: &Dim, span: Span) -> Eval<Node> {
    let size = e.dims(x)[axis].clone();
    if start.as_const() == Some(0) && *end == size {
        return Ok(x);
    }
    // From the end: a number below 0, and the end itself.
    let from_end = |bound: &Dim| bound.sub(&size).and_then(|d| d.as_const()).filter(|n| *n <= 0);
    let first = start.as_const().or_else(|| from_end(start).filter(|n| *n < 0));
    let last = match end.as_const() {
        Some(n) => Some(n),
        None => from_end(end).map(|n| if n == 0 { i64::MAX } else { n }),
    };
    if let (Some(start), Some(end)) = (first, last) {
        return e.op(Op::Slice { axis: axis as u32, start, end }, &[x], span);
    }
    let (Some(start), Some(length)) = (start.as_const(), end.sub(start)) else {
        let message = format!("`{start}..{end}` of a dimension of size {size} is known only when running");
        let d = Diagnostic::new(Code::RunTimeSize, span, message).label("cannot be cut here");
        return Err(d.help("one bound must be known, or count from the end").into());
    };
    let mut index = e.iota(&length, span)?;
    if start != 0 {
        index = e.op(Op::AddScalar { value: whole(start, span)?.into() }, &[index], span)?;
    }
    e.op(Op::Gather { axis: axis as i32 }, &[x, index], span)
}

fn gather(e: &mut Evaluator<'_>, a: &Args, op: fn(i32) -> Op) -> Eval {
    let x = a.this(e)?;
    let axis = a.axis(e, 0, e.dims(x).len())? as i32;
    let index = match e.deref(a.value(1).clone()) {
        value @ (Value::Host(_) | Value::List(_)) if e.is_host(&value) => {
            e.host_tensor(&value, Some(DType::I64), 1, a.at(1))?
        }
        _ => a.tensor(e, 1)?,
    };
    Ok(Value::Tensor(e.op(op(axis), &[x, index], a.span)?))
}

fn cast(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (x, name) = (a.this(e)?, a.text(e, 0)?);
    let wanted = match &*name {
        "u32" | "usize" | "u64" => Some(DType::I64),
        name => DType::from_name(name).filter(|t| !t.is_encoding()),
    };
    let Some(dtype) = wanted else {
        return Err(a.wrong(0, format!("`{name}` is no type; known are f32, f16, bf16, i64, i32, i8, u8 and bool")));
    };
    if e.ty(x).dtype == dtype {
        return Ok(Value::Tensor(x));
    }
    Ok(Value::Tensor(e.op(Op::Cast { dtype }, &[x], a.span)?))
}
