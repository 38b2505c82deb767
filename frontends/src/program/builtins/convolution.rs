//! Convolutions: kernels of the weight store, and kernels that are tensors.

use super::weights::parent;
use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;
use tallow_ir::{Dim, Op, Value as Node};

/// Methods of tensors whose kernel is a tensor.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "conv1d",
        params: "kernel[, bias, stride, padding, dilation, groups]",
        doc: "Convolution of `[N, C, L]` by a kernel `[out, in/groups, k]`, with a bias `[out]` or `None`; stride, dilation and groups are 1, padding 0 unless given.",
        lower: |e, a| by_tensor(e, a, 1),
    },
    Builtin {
        name: "conv2d",
        params: "kernel[, bias, stride, padding, dilation, groups]",
        doc: "Convolution of `[N, C, H, W]` by a kernel `[out, in/groups, kh, kw]`, with a bias `[out]` or `None`; stride, dilation and groups are 1, padding 0 unless given; numbers, or pairs for rows and columns.",
        lower: |e, a| by_tensor(e, a, 2),
    },
    Builtin {
        name: "conv_transpose1d",
        params: "kernel[, bias, stride, padding, output_padding, dilation, groups]",
        doc: "Transposed convolution of `[N, C, L]` by a kernel `[in, out/groups, k]`, with a bias `[out]` or `None`; stride, dilation and groups are 1, padding and output_padding 0 unless given.",
        lower: transposed_by_tensor,
    },
];

/// Sizes of a convolution, one for each direction.
struct Window {
    kernel: Vec<u32>,
    stride: Vec<u32>,
    padding: Vec<u32>,
    dilation: Vec<u32>,
    groups: u32,
}

impl Window {
    /// The sizes from argument `first` on: stride, padding, dilation, groups.
    fn read(e: &Evaluator<'_>, a: &Args, first: usize, kernel: Vec<u32>, padding: Vec<u32>) -> Eval<Window> {
        let n = kernel.len();
        let or = |i: usize, least: u32, default: Vec<u32>| if a.has(i) { a.each(e, i, n, least) } else { Ok(default) };
        Ok(Window {
            stride: or(first, 1, vec![1; n])?,
            padding: or(first + 1, 0, padding)?,
            dilation: or(first + 2, 1, vec![1; n])?,
            groups: a.count_or(e, first + 3, 1)?,
            kernel,
        })
    }

    fn op(self) -> Option<Op> {
        let Window { kernel, stride, padding, dilation, groups } = self;
        Some(match *kernel.as_slice() {
            [kernel] => Op::Conv1d { kernel, stride: stride[0], padding: padding[0], dilation: dilation[0], groups },
            [_, _] => Op::Conv2d {
                kernel: kernel.try_into().ok()?,
                stride: stride.try_into().ok()?,
                padding: padding.try_into().ok()?,
                dilation: dilation.try_into().ok()?,
                groups,
            },
            _ => Op::Conv3d {
                kernel: kernel.try_into().ok()?,
                stride: stride.try_into().ok()?,
                padding: padding.try_into().ok()?,
                dilation: dilation.try_into().ok()?,
                groups,
            },
        })
    }
}

impl Args {
    /// Argument `i`, a number for each of `n` directions, or one for all.
    pub(super) fn each(&self, e: &Evaluator<'_>, i: usize, n: usize, least: u32) -> Eval<Vec<u32>> {
        let numbers = self.ints(e, i)?;
        let fits = |v: &i64| u32::try_from(*v).ok().filter(|v| *v >= least && *v <= 0x7fff_ffff);
        let Some(numbers) = numbers.iter().map(fits).collect::<Option<Vec<u32>>>() else {
            return Err(self.wrong(i, format!("expected numbers of at least {least}, found {numbers:?}")));
        };
        match numbers.len() {
            1 => Ok(vec![numbers[0]; n]),
            len if len == n => Ok(numbers),
            len => Err(self.wrong(i, format!("expected one number or {n}, found {len}"))),
        }
    }
}

/// What an operand of a convolution in so many directions looks like.
fn form(directions: usize) -> &'static str {
    match directions {
        1 => "[N, C, L]",
        2 => "[N, C, H, W]",
        _ => "[N, C, D, H, W]",
    }
}

/// The operand `x`, whose channels are those that the weight takes where `x` is an input without a shape, and how many
/// they are.
fn channels(e: &mut Evaluator<'_>, a: &Args, directions: usize, taken: Option<i64>) -> Eval<(Node, i64)> {
    let mut axes = vec![None; directions + 2];
    axes[1] = taken.map(Dim::constant);
    let x = match (axes[1].is_some(), a.value(0)) {
        (true, value) => e.operand(value, &axes, a.at(0))?,
        (false, value) => e.to_node(value, a.at(0))?,
    };
    e.ranked(x, form(directions), a.at(0))?;
    let channels = e.known_dim(x, 1, a.at(0))?;
    Ok((x, channels))
}

/// The kernel of a weight: as the call says, else as the tensor index has it.
fn kernel_of(e: &Evaluator<'_>, a: &Args, i: usize, name: &str, directions: usize) -> Eval<Vec<u32>> {
    if a.has(i) {
        return a.each(e, i, directions, 1);
    }
    let Some(shape) = e.weight_shape(name) else {
        let message = format!("the kernel of `{name}` is not known without a tensor index");
        return Err(Diagnostic::new(Code::MissingWeight, a.name, message).help("say it, or give the index").into());
    };
    let kernel: Option<Vec<u32>> = shape.iter().skip(2).map(|&n| u32::try_from(n).ok()).collect();
    match kernel {
        Some(kernel) if shape.len() == directions + 2 => Ok(kernel),
        _ => {
            let message = format!("`{name}` has the shape {shape:?}, and a kernel here needs {} sizes", directions + 2);
            Err(Diagnostic::new(Code::WeightShape, a.at(1), message).label("no such kernel").into())
        }
    }
}

fn with_bias(e: &mut Evaluator<'_>, mut operands: Vec<Node>, name: &str, out: i64, at: Span) -> Eval<Vec<Node>> {
    if let Some(bias) = e.bias_name(name) {
        operands.push(e.weight(&bias, Some(&[out]), at)?);
    }
    Ok(operands)
}

/// `conv1d`, `conv2d` and `conv3d` of the weight store.
pub(super) fn conv(e: &mut Evaluator<'_>, a: &Args, directions: usize) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    e.require(&name, a.at(1))?;
    let out = i64::from(a.count(e, 2)?);
    let kernel = kernel_of(e, a, 3, &name, directions)?;
    let half = kernel.iter().map(|k| k / 2).collect();
    let window = Window::read(e, a, 4, kernel, half)?;
    let groups = i64::from(window.groups);
    let taken = e.weight_shape(&name).and_then(|s| s.get(1)?.checked_mul(groups));
    let (x, channels) = channels(e, a, directions, taken)?;
    if channels % groups != 0 {
        return Err(a.wrong(7, format!("{channels} channels cannot be parted into {groups} groups")));
    }
    let mut shape = vec![out, channels / groups];
    shape.extend(window.kernel.iter().map(|&k| i64::from(k)));
    let w = e.weight(&name, Some(&shape), a.at(1))?;
    let operands = with_bias(e, vec![x, w], &name, out, a.at(1))?;
    let Some(op) = window.op() else { return Err(Flow::Poisoned) };
    let y = e.op(op, &operands, a.span)?;
    match parent(&name).strip_suffix(".conv").map(|stem| format!("{stem}.bn")) {
        Some(norm) if directions == 2 && e.has_weight(&format!("{norm}.running_mean")) => {
            let eps = batch_norm_eps(e, a.span)?;
            let normed = e.batch_norm(y, &norm, eps, [a.span, a.at(1), a.span])?;
            e.build(a.span)?.batch_norms.insert(normed, norm);
            Ok(Value::Tensor(normed))
        }
        _ => Ok(Value::Tensor(y)),
    }
}

/// ε of batch norms that follow convolutions by themselves.
fn batch_norm_eps(e: &mut Evaluator<'_>, span: Span) -> Eval<f32> {
    let found = e.build(span)?.config.architecture().f64("batch_norm_eps");
    let eps = found.map_err(|error| Flow::from(Diagnostic::new(Code::FamilyConfig, span, error.to_string())))?;
    match eps.unwrap_or(1e-5) {
        eps if eps >= 1.0 => Ok((1.0 / eps) as f32),
        eps if eps >= 0.0 => Ok(eps as f32),
        eps => Err(Diagnostic::new(Code::Type, span, format!("`batch_norm_eps` of the config is {eps}")).into()),
    }
}

/// `conv1d_patch` of the weight store.
pub(super) fn patch1d(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    e.require(&name, a.at(1))?;
    let (out, rate) = (i64::from(a.count(e, 2)?), a.count(e, 3)?);
    let taken = e.weight_shape(&name).and_then(|s| s.get(1).copied());
    let (x, channels) = channels(e, a, 1, taken)?;
    let w = e.weight(&name, Some(&[out, channels, rate.into()]), a.at(1))?;
    let operands = with_bias(e, vec![x, w], &name, out, a.at(1))?;
    let op = Op::Conv1d { kernel: rate, stride: rate, padding: 0, dilation: 1, groups: 1 };
    Ok(Value::Tensor(e.op(op, &operands, a.span)?))
}

/// `causal_conv1d` of the weight store.
pub(super) fn causal(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    e.require(&name, a.at(1))?;
    let out = i64::from(a.count(e, 2)?);
    let kernel = kernel_of(e, a, 3, &name, 1)?[0];
    let shape = e.weight_shape(&name);
    // One group, unless the weight says otherwise.
    let (x, channels) = channels(e, a, 1, None)?;
    let per_group = shape.and_then(|s| s.get(1).copied()).unwrap_or(channels);
    let w = e.weight(&name, Some(&[out, per_group, kernel.into()]), a.at(1))?;
    let operands = with_bias(e, vec![x, w], &name, out, a.at(1))?;
    Ok(Value::Tensor(e.op(Op::CausalConv1d { kernel }, &operands, a.span)?))
}

/// `conv_transpose1d` of the weight store.
pub(super) fn transposed1d(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    e.require(&name, a.at(1))?;
    let out = a.count(e, 2)?;
    let kernel = kernel_of(e, a, 7, &name, 1)?[0];
    let shape = e.weight_shape(&name);
    let (x, channels) = channels(e, a, 1, shape.as_ref().and_then(|s| s.first().copied()))?;
    let groups = match shape.as_ref().and_then(|s| s.get(1)) {
        Some(&n) if n > 0 && i64::from(out) % n == 0 => (i64::from(out) / n) as u32,
        _ => 1,
    };
    let w = e.weight(&name, Some(&[channels, i64::from(out / groups), kernel.into()]), a.at(1))?;
    let operands = with_bias(e, vec![x, w], &name, out.into(), a.at(1))?;
    let op = Op::ConvTranspose1d {
        kernel,
        stride: a.count_or(e, 3, 1)?,
        padding: a.natural_or(e, 4, 0)?,
        output_padding: a.natural_or(e, 5, 0)?,
        dilation: a.count_or(e, 6, 1)?,
        groups,
    };
    Ok(Value::Tensor(e.op(op, &operands, a.span)?))
}

/// `conv_transpose2d` of the weight store.
pub(super) fn transposed2d(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    e.require(&name, a.at(1))?;
    let out = i64::from(a.count(e, 2)?);
    let (kernel, stride) = (a.each(e, 3, 2, 1)?, a.each(e, 4, 2, 1)?);
    let padding = if a.has(5) { a.each(e, 5, 2, 0)? } else { vec![0; 2] };
    let taken = e.weight_shape(&name).and_then(|s| s.first().copied());
    let (x, channels) = channels(e, a, 2, taken)?;
    let w = e.weight(&name, Some(&[channels, out, kernel[0].into(), kernel[1].into()]), a.at(1))?;
    let operands = with_bias(e, vec![x, w], &name, out, a.at(1))?;
    let pair = |v: Vec<u32>| [v[0], v[1]];
    let op = Op::ConvTranspose2d { kernel: pair(kernel), stride: pair(stride), padding: pair(padding) };
    Ok(Value::Tensor(e.op(op, &operands, a.span)?))
}

/// The kernel and the bias that a call gives, and the sizes of the kernel.
fn given(e: &mut Evaluator<'_>, a: &Args, directions: usize) -> Eval<(Vec<Node>, Vec<u32>)> {
    let w = a.tensor(e, 0)?;
    e.ranked(w, if directions == 1 { "[out, in, k]" } else { "[out, in, kh, kw]" }, a.at(0))?;
    let mut kernel = Vec::with_capacity(directions);
    for axis in 2..directions + 2 {
        let size = e.known_dim(w, axis, a.at(0))?;
        kernel.push(u32::try_from(size).map_err(|_| a.wrong(0, format!("a kernel of the size {size}")))?);
    }
    let mut operands = vec![w];
    match e.deref(a.value(1).clone()) {
        Value::Option(None) => {}
        _ if !a.has(1) => {}
        Value::Int(_) | Value::Float(_) => {
            return Err(a.wrong(1, "the bias stands here: a tensor, or `None`; the stride comes behind it"));
        }
        Value::Option(Some(bias)) => operands.push(e.to_node(&bias[0], a.at(1))?),
        bias => operands.push(e.to_node(&bias, a.at(1))?),
    }
    Ok((operands, kernel))
}

fn by_tensor(e: &mut Evaluator<'_>, a: &Args, directions: usize) -> Eval {
    let (operands, kernel) = given(e, a, directions)?;
    let window = Window::read(e, a, 2, kernel, vec![0; directions])?;
    let mut axes = vec![None; directions + 2];
    axes[1] = e.dims(operands[0])[1].mul(&Dim::constant(window.groups.into()));
    let x = a.this_as(e, &axes)?;
    e.ranked(x, form(directions), a.name)?;
    let Some(op) = window.op() else { return Err(Flow::Poisoned) };
    Ok(Value::Tensor(e.op(op, &[vec![x], operands].concat(), a.span)?))
}

fn transposed_by_tensor(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (operands, kernel) = given(e, a, 1)?;
    let taken = e.dims(operands[0])[0].clone();
    let x = a.this_as(e, &[None, Some(taken), None])?;
    e.ranked(x, form(1), a.name)?;
    let op = Op::ConvTranspose1d {
        kernel: kernel[0],
        stride: a.count_or(e, 2, 1)?,
        padding: a.natural_or(e, 3, 0)?,
        output_padding: a.natural_or(e, 4, 0)?,
        dilation: a.count_or(e, 5, 1)?,
        groups: a.count_or(e, 6, 1)?,
    };
    Ok(Value::Tensor(e.op(op, &[vec![x], operands].concat(), a.span)?))
}
