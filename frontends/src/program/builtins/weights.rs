//! Methods of the weight store.
//!
//! Names come with or without the suffix `.weight`. A linear map or convolution adds the sibling `.bias` where the
//! tensor index has one.

use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::{DType, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "embed",
        params: "name, ids, dim",
        doc: "The rows of a table `[rows, dim]` that ids name: `[S]` → `[S, dim]`. Ids are a tensor, or a list of numbers.",
        lower: embed,
    },
    Builtin {
        name: "embed_positions",
        params: "name, x",
        doc: "Learned positions: the rows of a table for the positions of this call's tokens, for ids `[S]` or rows `[…, S, D]`: `[S, dim]`.",
        lower: embed_positions,
    },
    Builtin {
        name: "linear",
        params: "x, name, out",
        doc: "`x · Wᵀ`, and the sibling bias where there is one: `[…, in]` → `[…, out]`.",
        lower: |e, a| linear(e, a, true),
    },
    Builtin {
        name: "linear_no_bias",
        params: "x, name, out",
        doc: "`x · Wᵀ`, whatever lies beside W: `[…, in]` → `[…, out]`.",
        lower: |e, a| linear(e, a, false),
    },
    Builtin {
        name: "rmsnorm",
        params: "x, name, eps",
        doc: "`x / √(mean(x²) + ε) · g` over the last dimension; an ε of at least 1 means 1/ε.",
        lower: rmsnorm,
    },
    Builtin {
        name: "layernorm",
        params: "x, name[, bias, eps]",
        doc: "Normalised over the last dimension, then scale and shift. `layernorm(x, weight, bias, eps)` names both tensors, `layernorm(x, name, eps)` what they begin with; ε is 1e-5 unless given, and one of at least 1 means 1/ε.",
        lower: layernorm,
    },
    Builtin {
        name: "batchnorm",
        params: "x, name[, eps]",
        doc: "Batch norm of `[N, C, …]` with the stored statistics `running_mean` and `running_var` below the name; ε is 1e-5 unless given.",
        lower: |e, a| {
            let (x, name) = (a.tensor(e, 0)?, a.text(e, 1)?);
            let eps = a.epsilon(e, 2, 1e-5)?;
            if e.build(a.span)?.batch_norms.get(&x).is_some_and(|applied| applied == parent(&name)) {
                let message = format!("`{}` is applied twice: the convolution before it has applied it", parent(&name));
                let d = Diagnostic::new(Code::Twice, a.name, message).label("for the second time");
                return Err(d
                    .help("leave this call out: `conv2d` of `X.conv` applies the batch norm `X.bn` by itself")
                    .into());
            }
            Ok(Value::Tensor(e.batch_norm(x, parent(&name), eps, [a.at(0), a.at(1), a.span])?))
        },
    },
    Builtin {
        name: "groupnorm",
        params: "x, name, groups[, eps]",
        doc: "Normalised over groups of channels of `[N, C, …]`, then scale and shift of each channel; ε is 1e-5 unless given.",
        lower: groupnorm,
    },
    Builtin {
        name: "conv1d",
        params: "x, name, out[, kernel, stride, padding, dilation, groups]",
        doc: "Convolution of `[N, C, L]` with the sibling bias where there is one: `kernel` is that of the weight unless given, stride, dilation and groups 1, padding kernel/2.",
        lower: |e, a| super::convolution::conv(e, a, 1),
    },
    Builtin {
        name: "conv2d",
        params: "x, name, out, kernel, stride[, padding, dilation, groups]",
        doc: "Convolution of `[N, C, H, W]` with the sibling bias where there is one; numbers, or pairs for rows and columns; padding is kernel/2 unless given, dilation and groups 1. Behind `X.conv` the batch norm `X.bn` applies where the tensor index has it, with the config's `batch_norm_eps`, else 1e-5.",
        lower: |e, a| super::convolution::conv(e, a, 2),
    },
    Builtin {
        name: "conv3d",
        params: "x, name, out[, kernel, stride, padding, dilation, groups]",
        doc: "Convolution of `[N, C, D, H, W]` with the sibling bias where there is one; numbers, or `[d, h, w]`; `kernel` is that of the weight unless given, stride, dilation and groups 1, padding kernel/2.",
        lower: |e, a| super::convolution::conv(e, a, 3),
    },
    Builtin {
        name: "causal_conv1d",
        params: "x, name, out[, kernel]",
        doc: "Convolution of `[N, C, L]` in which no place sees a later one, padded on the left alone; groups follow from the weight's shape.",
        lower: super::convolution::causal,
    },
    Builtin {
        name: "conv_transpose1d",
        params: "x, name, out[, stride, padding, output_padding, dilation, kernel]",
        doc: "Transposed convolution of `[N, C, L]`, weights `[in, out/groups, kernel]`; stride and dilation are 1, padding and output_padding 0 unless given, and the kernel is the weight's.",
        lower: super::convolution::transposed1d,
    },
    Builtin {
        name: "conv_transpose2d",
        params: "x, name, out, kernel, stride[, padding]",
        doc: "Transposed convolution of `[N, C, H, W]`, weights `[in, out, kernel, kernel]`; padding is 0 unless given.",
        lower: super::convolution::transposed2d,
    },
    Builtin {
        name: "conv1d_patch",
        params: "x, name, out, rate",
        doc: "Convolution of `[N, C, L]` over pieces of `rate` places that do not overlap: kernel and stride `rate`, no padding.",
        lower: super::convolution::patch1d,
    },
    Builtin {
        name: "get",
        params: "name",
        doc: "The tensor as it is.",
        lower: |e, a| {
            let name = e.weight_name(&a.text(e, 0)?);
            Ok(Value::Tensor(e.weight(&name, None, a.at(0))?))
        },
    },
    Builtin { name: "row", params: "name, id", doc: "One row of a table `[rows, dim]`: `[dim]`.", lower: row },
    Builtin {
        name: "has",
        params: "name",
        doc: "Whether the tensor index has the tensor.",
        lower: |e, a| {
            let name = e.weight_name(&a.text(e, 0)?);
            Ok(Value::Bool(e.has_weight(&name)))
        },
    },
    Builtin {
        name: "shape",
        params: "name",
        doc: "The list of sizes of a tensor.",
        lower: |e, a| {
            let name = e.weight_name(&a.text(e, 0)?);
            let weight = e.weight(&name, None, a.at(0))?;
            Ok(Value::list(e.dims(weight).iter().map(Value::size).collect()))
        },
    },
];

/// A name without the suffix `.weight`.
pub(super) fn parent(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

impl Evaluator<'_> {
    /// The name of a weight: as given where the index has it, else with `.weight`.
    pub(crate) fn weight_name(&self, name: &str) -> String {
        if name.ends_with(".weight") || self.has_weight(name) { name.to_owned() } else { format!("{name}.weight") }
    }

    /// The name of the bias beside a weight, where the index has one.
    pub(crate) fn bias_name(&self, weight: &str) -> Option<String> {
        let bias = format!("{}.bias", weight.strip_suffix(".weight")?);
        self.has_weight(&bias).then_some(bias)
    }

    /// An error where there is a tensor index and it lacks a weight.
    pub(crate) fn require(&mut self, name: &str, at: Span) -> Eval<()> {
        let indexed = self.build.as_ref().is_some_and(|b| b.tensors.is_some());
        if indexed && !self.has_weight(name) {
            self.weight(name, None, at)?;
        }
        Ok(())
    }

    /// The shape of a weight, where the index has it.
    pub(crate) fn weight_shape(&self, name: &str) -> Option<Vec<i64>> {
        let shape = self.build.as_ref()?.tensors?.shape(name)?;
        Some(shape.iter().map(|&n| n as i64).collect())
    }

    /// The known size of the last dimension.
    pub(crate) fn width(&mut self, node: Node, span: Span) -> Eval<i64> {
        let rank = self.dims(node).len();
        match rank.checked_sub(1) {
            Some(last) => self.known_dim(node, last, span),
            None => {
                let ty = self.ty(node);
                Err(Diagnostic::new(Code::Rank, span, format!("a number ({ty}) where rows are needed")).into())
            }
        }
    }

    /// The known size of a dimension.
    pub(crate) fn known_dim(&mut self, node: Node, axis: usize, span: Span) -> Eval<i64> {
        let ty = self.ty(node);
        let dim = ty.shape.dims().get(axis);
        match dim.and_then(|d| d.as_const()) {
            Some(n) => Ok(n),
            None => {
                let (which, dim) = match axis + 1 == ty.shape.rank() {
                    true => ("the last dimension".to_owned(), dim),
                    false => (format!("dimension {axis}"), dim),
                };
                let size = dim.map(ToString::to_string).unwrap_or_default();
                let d =
                    Diagnostic::new(Code::RunTimeSize, span, format!("{which} is {size}, and its size is needed here"));
                Err(d.label(format!("this is {ty}")).into())
            }
        }
    }

    /// `x · Wᵀ`, plus the bias beside it where `bias` asks for it and the index has one.
    pub(crate) fn matmul_by_name(
        &mut self,
        x: Node,
        name: &str,
        out: i64,
        bias: bool,
        at: Span,
        span: Span,
    ) -> Eval<Node> {
        let width = self.width(x, span)?;
        let w = self.weight(name, Some(&[out, width]), at)?;
        let mut y = self.op(Op::Matmul, &[x, w], span)?;
        if bias && let Some(bias) = self.bias_name(name) {
            let b = self.weight(&bias, Some(&[out]), at)?;
            y = self.op(Op::Add, &[y, b], span)?;
        }
        self.build(span)?.projections.insert(y, name.to_owned());
        Ok(y)
    }

    /// Scale and shift of a norm over `width` values: a norm without a bias shifts by nothing.
    fn scale_and_shift(&mut self, weight: &str, bias: &str, width: i64, at: Span, span: Span) -> Eval<[Node; 2]> {
        let scale = self.weight(weight, Some(&[width]), at)?;
        let indexed = self.build(span)?.tensors.is_some();
        let shift = match indexed && !self.has_weight(bias) {
            true => self.filled(DType::F32, &[width], vec![0.0], span)?,
            false => self.weight(bias, Some(&[width]), at)?,
        };
        Ok([scale, shift])
    }

    /// Batch norm by the tensors below `name`; `at` are the places of x, of the name and of the call.
    pub(crate) fn batch_norm(&mut self, x: Node, name: &str, eps: f32, at: [Span; 3]) -> Eval<Node> {
        let ty = self.ty(x);
        if ty.shape.rank() < 2 {
            let d = Diagnostic::new(Code::Rank, at[0], "expected [N, C, …]");
            return Err(d.label(format!("this is {ty}")).into());
        }
        let channels = self.known_dim(x, 1, at[0])?;
        let mut operands = vec![x];
        let learned = self.build(at[2])?.tensors.is_none() || self.has_weight(&format!("{name}.weight"));
        for (part, without) in [("weight", 1.0), ("bias", 0.0)] {
            operands.push(match learned {
                true => self.weight(&format!("{name}.{part}"), Some(&[channels]), at[1])?,
                false => self.filled(DType::F32, &[channels], vec![without], at[2])?,
            });
        }
        for part in ["running_mean", "running_var"] {
            operands.push(self.weight(&format!("{name}.{part}"), Some(&[channels]), at[1])?);
        }
        self.op(Op::BatchNorm { eps: eps.into(), momentum: 0.1.into() }, &operands, at[2])
    }
}

fn embed(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 0)?);
    let dim = i64::from(a.count(e, 2)?);
    let rows = match e.weight_shape(&name) {
        Some(shape) => shape.first().copied().unwrap_or(0),
        None => i64::from(e.vocab_size(a.span)?),
    };
    let ids = match e.deref(a.value(1).clone()) {
        // A list of numbers that only running tells holds ids.
        value @ (Value::Host(_) | Value::List(_)) if e.is_host(&value) => {
            e.host_tensor(&value, Some(DType::I64), 1, a.at(1))?
        }
        value => {
            known_ids(e, a, 1, &value, rows)?;
            e.operand(&value, &[None], a.at(1))?
        }
    };
    let table = e.weight(&name, Some(&[rows, dim]), a.at(0))?;
    Ok(Value::Tensor(e.op(Op::TokenEmbed, &[ids, table], a.span)?))
}

/// Checks ids that are known against the rows of a table.
fn known_ids(e: &Evaluator<'_>, a: &Args, i: usize, value: &Value, rows: i64) -> Eval<()> {
    let one = |v: &Value| match e.deref(v.clone()) {
        Value::Int(n) if n.value < 0 || n.value >= i128::from(rows) => {
            let d = Diagnostic::new(Code::Index, a.at(i), format!("there is no row {} in a table of {rows}", n.value));
            Err(d.into())
        }
        _ => Ok(()),
    };
    match value {
        Value::List(items) | Value::Tuple(items) => items.iter().try_for_each(one),
        other => one(other),
    }
}

fn embed_positions(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 0)?);
    let table = e.weight(&name, None, a.at(0))?;
    e.ranked(table, "[positions, dim]", a.at(0))?;
    let x = a.tensor(e, 1)?;
    let positions = e.positions(x, a.span)?;
    Ok(Value::Tensor(e.op(Op::TokenEmbed, &[positions, table], a.span)?))
}

fn row(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 0)?);
    let table = e.weight(&name, None, a.at(0))?;
    e.ranked(table, "[rows, dim]", a.at(0))?;
    let rows = e.known_dim(table, 0, a.at(0))?;
    known_ids(e, a, 1, a.value(1), rows)?;
    let id = a.tensor(e, 1)?;
    Ok(Value::Tensor(e.op(Op::TokenEmbed, &[id, table], a.span)?))
}

fn linear(e: &mut Evaluator<'_>, a: &Args, bias: bool) -> Eval {
    let name = e.weight_name(&a.text(e, 1)?);
    let out = i64::from(a.count(e, 2)?);
    e.require(&name, a.at(1))?;
    let inner = e.weight_shape(&name).and_then(|s| s.get(1).copied());
    let x = match inner {
        Some(n) => {
            let tokens = tallow_ir::Dim::symbol(tallow_ir::SEQUENCE);
            e.operand(a.value(0), &[Some(tokens), Some(n.into())], a.at(0))?
        }
        None => a.tensor(e, 0)?,
    };
    Ok(Value::Tensor(e.matmul_by_name(x, &name, out, bias, a.at(1), a.span)?))
}

fn rmsnorm(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let name = e.weight_name(&a.text(e, 1)?);
    let eps = a.epsilon(e, 2, 1e-6)?.into();
    let width = e.width(x, a.at(0))?;
    let g = e.weight(&name, Some(&[width]), a.at(1))?;
    Ok(Value::Tensor(e.op(Op::RmsNorm { eps }, &[x, g], a.span)?))
}

fn layernorm(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let weight = e.weight_name(&a.text(e, 1)?);
    let width = e.width(x, a.at(0))?;
    let named = matches!(e.deref(a.value(2).clone()), Value::Str(_));
    if !named && a.has(3) {
        return Err(a.wrong(2, "the name of the bias is needed here, as ε follows"));
    }
    let [g, b] = if named {
        let bias = a.text(e, 2)?;
        let full =
            if e.has_weight(&bias) || bias.ends_with(".bias") { bias.to_string() } else { format!("{bias}.bias") };
        [e.weight(&weight, Some(&[width]), a.at(1))?, e.weight(&full, Some(&[width]), a.at(2))?]
    } else {
        e.scale_and_shift(&weight, &format!("{}.bias", parent(&weight)), width, a.at(1), a.span)?
    };
    let eps = a.epsilon(e, if named { 3 } else { 2 }, 1e-5)?.into();
    Ok(Value::Tensor(e.op(Op::LayerNorm { eps }, &[x, g, b], a.span)?))
}

fn groupnorm(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let weight = e.weight_name(&a.text(e, 1)?);
    let groups = a.count(e, 2)?;
    let ty = e.ty(x);
    if ty.shape.rank() < 3 {
        let d = Diagnostic::new(Code::Rank, a.at(0), "expected [N, C, …]").label(format!("this is {ty}"));
        return Err(d.help("`unsqueeze(0)` puts a dimension of 1 in front").into());
    }
    let channels = e.known_dim(x, 1, a.at(0))?;
    let bias = format!("{}.bias", parent(&weight));
    let [g, b] = e.scale_and_shift(&weight, &bias, channels, a.at(1), a.span)?;
    let eps = a.epsilon(e, 3, 1e-5)?.into();
    Ok(Value::Tensor(e.op(Op::GroupNorm { groups, eps }, &[x, g, b], a.span)?))
}
