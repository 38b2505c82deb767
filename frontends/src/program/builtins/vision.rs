//! Pictures, video, detection, diffusion; products and norms whose tensors are given.

use super::sizes::Wanted;
use super::{Args, Builtin};
use crate::program::ast::{BinaryOp, Span};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::ops::{Interpolation, PoolMode};
use tallow_ir::{DType, Dim, NodeKind, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "matmul",
        params: "other",
        doc: "The matrix product `a · b` over the last two dimensions: `[…, M, K]` and `[…, K, N]` → `[…, M, N]`; the dimensions before broadcast.",
        lower: |e, a| product(e, a, false),
    },
    Builtin {
        name: "matmul_t",
        params: "other",
        doc: "The matrix product `a · bᵀ`: `[…, M, K]` and `[…, N, K]` → `[…, M, N]`; the dimensions before broadcast.",
        lower: |e, a| product(e, a, true),
    },
    Builtin {
        name: "rms_norm",
        params: "gain[, eps]",
        doc: "`x / √(mean(x²) + ε) · gain` over the last dimension; ε is 1e-6 unless given, and one of at least 1 means 1/ε.",
        lower: |e, a| {
            let (x, gain) = (a.this(e)?, a.tensor(e, 0)?);
            let eps = a.epsilon(e, 1, 1e-6)?.into();
            Ok(Value::Tensor(e.op(Op::RmsNorm { eps }, &[x, gain], a.span)?))
        },
    },
    Builtin {
        name: "layer_norm",
        params: "gain, bias[, eps]",
        doc: "Normalised over the last dimension, then scale and shift; ε is 1e-5 unless given.",
        lower: |e, a| {
            let (x, gain, bias) = (a.this(e)?, a.tensor(e, 0)?, a.tensor(e, 1)?);
            let eps = a.epsilon(e, 2, 1e-5)?.into();
            Ok(Value::Tensor(e.op(Op::LayerNorm { eps }, &[x, gain, bias], a.span)?))
        },
    },
    Builtin {
        name: "layer_norm_plain",
        params: "[eps]",
        doc: "Normalised over the last dimension, without scale and shift; ε is 1e-5 unless given.",
        lower: |e, a| {
            let x = a.this(e)?;
            let width = e.width(x, a.name)?;
            let gain = e.filled(DType::F32, &[width], vec![1.0], a.span)?;
            let bias = e.filled(DType::F32, &[width], vec![0.0], a.span)?;
            let eps = a.epsilon(e, 0, 1e-5)?.into();
            Ok(Value::Tensor(e.op(Op::LayerNorm { eps }, &[x, gain, bias], a.span)?))
        },
    },
    Builtin {
        name: "group_norm",
        params: "gain, bias, groups[, eps]",
        doc: "Normalised over groups of channels of `[N, C, …]`, then scale and shift `[C]`; ε is 1e-5 unless given.",
        lower: |e, a| {
            let (x, gain, bias) = (a.this(e)?, a.tensor(e, 0)?, a.tensor(e, 1)?);
            let (groups, eps) = (a.count(e, 2)?, a.epsilon(e, 3, 1e-5)?.into());
            Ok(Value::Tensor(e.op(Op::GroupNorm { groups, eps }, &[x, gain, bias], a.span)?))
        },
    },
    Builtin {
        name: "instance_norm",
        params: "gain, bias[, eps]",
        doc: "Normalised over each channel of `[N, C, …]`, then scale and shift `[C]`; ε is 1e-5 unless given.",
        lower: |e, a| {
            let (x, gain, bias) = (a.this(e)?, a.tensor(e, 0)?, a.tensor(e, 1)?);
            let eps = a.epsilon(e, 2, 1e-5)?.into();
            Ok(Value::Tensor(e.op(Op::InstanceNorm { eps }, &[x, gain, bias], a.span)?))
        },
    },
    Builtin {
        name: "upsample",
        params: "scale",
        doc: "`[N, C, H, W]` larger by a whole factor, or `[h, w]`, by repeating pixels.",
        lower: |e, a| {
            let x = a.this(e)?;
            e.ranked(x, "[N, C, H, W]", a.name)?;
            repeat_each(e, a, x)
        },
    },
    Builtin {
        name: "upsample3d",
        params: "scale",
        doc: "`[N, C, D, H, W]` larger by a whole factor, or `[d, h, w]`, by repeating voxels.",
        lower: |e, a| {
            let x = a.this(e)?;
            e.ranked(x, "[N, C, D, H, W]", a.name)?;
            repeat_each(e, a, x)
        },
    },
    Builtin {
        name: "interpolate",
        params: "scale[, mode]",
        doc: "`[N, C, H, W]` resized to `⌊n · scale⌋` with half-pixel centres; `mode` is `\"nearest\"` (unless given), `\"bilinear\"` or `\"area\"`.",
        lower: interpolate,
    },
    Builtin {
        name: "pixel_shuffle",
        params: "factor",
        doc: "Channels to space: `[N, C·f², H, W]` → `[N, C, H·f, W·f]`.",
        lower: |e, a| {
            let (x, factor) = (a.this(e)?, a.count(e, 0)?);
            Ok(Value::Tensor(e.op(Op::PixelShuffle { factor }, &[x], a.span)?))
        },
    },
    Builtin {
        name: "pixel_unshuffle",
        params: "factor",
        doc: "Space to channels: `[N, C, H·f, W·f]` → `[N, C·f², H, W]`.",
        lower: |e, a| {
            let (x, factor) = (a.this(e)?, a.count(e, 0)?);
            Ok(Value::Tensor(e.op(Op::PixelUnshuffle { factor }, &[x], a.span)?))
        },
    },
    Builtin {
        name: "max_pool2d",
        params: "kernel, stride[, padding]",
        doc: "The largest value of each window of `[N, C, H, W]`; numbers, or pairs for rows and columns; padding is 0 unless given.",
        lower: |e, a| pool(e, a, PoolMode::Max),
    },
    Builtin {
        name: "avg_pool2d",
        params: "kernel, stride[, padding]",
        doc: "The mean of each window of `[N, C, H, W]`, where padding counts as zero; numbers, or pairs for rows and columns; padding is 0 unless given.",
        lower: |e, a| pool(e, a, PoolMode::Average),
    },
    Builtin {
        name: "patchify",
        params: "patch",
        doc: "`[N, C, H, W]` → `[N, H/p·W/p, C·p·p]`, patches row by row, each in the order channel, row, column.",
        lower: |e, a| {
            let (x, factor) = (a.this(e)?, a.count(e, 0)?);
            let cells = e.op(Op::PixelUnshuffle { factor }, &[x], a.span)?;
            flatten_patches(e, cells, a.span)
        },
    },
    Builtin {
        name: "flatten_patches",
        params: "",
        doc: "`[N, D, H, W]` → `[N, H·W, D]`, row by row.",
        lower: |e, a| {
            let x = a.this(e)?;
            e.ranked(x, "[N, D, H, W]", a.name)?;
            flatten_patches(e, x, a.span)
        },
    },
    Builtin {
        name: "unflatten_patches",
        params: "height, width",
        doc: "`[N, H·W, D]` → `[N, D, H, W]`, the inverse of `flatten_patches`.",
        lower: unflatten_patches,
    },
    Builtin {
        name: "adaptive_layernorm",
        params: "scale, shift",
        doc: "`norm(x) · (1 + scale) + shift` over the last dimension, with ε = 1e-6 and no weights; scale and shift are `[C]`, a row for each sample `[N, C]`, or broadcast to x.",
        lower: |e, a| {
            let (x, scale, shift) = (a.this(e)?, a.tensor(e, 0)?, a.tensor(e, 1)?);
            Ok(Value::Tensor(e.op(Op::AdaLN, &[x, scale, shift], a.span)?))
        },
    },
    Builtin {
        name: "ddim_step",
        params: "noise, alpha, alpha_previous",
        doc: "One deterministic step from x towards less noise: with the products α of 1 − β up to this step and up to the next, `√α' · (x − √(1 − α) · noise) / √α + √(1 − α') · noise`.",
        lower: ddim_step,
    },
    Builtin {
        name: "non_max_suppression",
        params: "scores, iou[, score, limit]",
        doc: "Numbers of the boxes `[N, 4]` (x1 y1 x2 y2) that stay, best first: each that overlaps one that stayed by more than `iou` is dropped, those that score below `score` (0 unless given) are dropped first, and at most `limit` stay (0: all).",
        lower: |e, a| {
            let (boxes, scores) = (a.this(e)?, a.tensor(e, 0)?);
            let (iou, score) = (a.float(e, 1)? as f32, a.float_or(e, 2, 0.0)? as f32);
            let limit = a.natural_or(e, 3, 0)?;
            let op = Op::NonMaxSuppression { iou: iou.into(), score: score.into(), limit };
            Ok(Value::Tensor(e.op(op, &[boxes, scores], a.span)?))
        },
    },
];

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[];

fn product(e: &mut Evaluator<'_>, a: &Args, transpose_b: bool) -> Eval {
    let other = a.tensor(e, 0)?;
    let ty = e.ty(other);
    let dims = ty.shape.dims();
    if dims.len() < 2 {
        let d = Diagnostic::new(Code::Rank, a.at(0), "a matrix is needed").label(format!("this is {ty}"));
        return Err(d.help("`unsqueeze` makes one of a row").into());
    }
    let inner = dims[dims.len() - if transpose_b { 1 } else { 2 }].clone();
    let tokens = Dim::symbol(tallow_ir::SEQUENCE);
    let x = a.this_as(e, &[Some(tokens), Some(inner)])?;
    // A matrix of the model itself may be encoded, which the plain product reads as it lies.
    let weight = matches!(e.build(a.span)?.graph.node(other.node).kind, NodeKind::Weight(_));
    let op = if transpose_b && weight && dims.len() == 2 { Op::Matmul } else { Op::BatchMatmul { transpose_b } };
    Ok(Value::Tensor(e.op(op, &[x, other], a.span)?))
}

/// Each element as often as argument 0 says, along every dimension but the first two.
fn repeat_each(e: &mut Evaluator<'_>, a: &Args, x: Node) -> Eval {
    let times = a.each(e, 0, e.dims(x).len() - 2, 1)?;
    let mut y = x;
    for (i, times) in times.into_iter().enumerate().filter(|(_, n)| *n != 1) {
        y = e.op(Op::RepeatEach { axis: i as i32 + 2, times }, &[y], a.span)?;
    }
    Ok(Value::Tensor(y))
}

fn interpolate(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let scale = (a.float(e, 0)? as f32).into();
    let mode = if a.has(1) { a.text(e, 1)? } else { "nearest".into() };
    let mode = match &*mode {
        "nearest" => Interpolation::Nearest,
        "bilinear" => Interpolation::Bilinear,
        "area" => Interpolation::Area,
        other => return Err(a.wrong(1, format!("`{other}` is no mode; known are nearest, bilinear and area"))),
    };
    Ok(Value::Tensor(e.op(Op::Interpolate { mode, scale }, &[x], a.span)?))
}

fn pool(e: &mut Evaluator<'_>, a: &Args, mode: PoolMode) -> Eval {
    let x = a.this(e)?;
    let pair = |i: usize, least: u32| a.each(e, i, 2, least).map(|v| [v[0], v[1]]);
    let (kernel, stride) = (pair(0, 1)?, pair(1, 1)?);
    let padding = if a.has(2) { pair(2, 0)? } else { [0, 0] };
    Ok(Value::Tensor(e.op(Op::Pool { mode, kernel, stride, padding }, &[x], a.span)?))
}

fn flatten_patches(e: &mut Evaluator<'_>, x: Node, span: Span) -> Eval {
    let rows = e.op(Op::Flatten { start: 2, end: 3 }, &[x], span)?;
    Ok(Value::Tensor(e.op(Op::Permute { dims: vec![0, 2, 1] }, &[rows], span)?))
}

fn unflatten_patches(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.this(e)?;
    let dims = e.ranked(x, "[N, H·W, D]", a.name)?;
    let (height, width) = (a.dim(e, 0)?, a.dim(e, 1)?);
    let columns = e.op(Op::Permute { dims: vec![0, 2, 1] }, &[x], a.span)?;
    let shape: Vec<Wanted> = [dims[0].clone(), dims[2].clone(), height, width].into_iter().map(Some).collect();
    Ok(Value::Tensor(e.reshape_to(columns, &shape, a.span)?))
}

fn ddim_step(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (x, noise) = (a.this(e)?, a.tensor(e, 0)?);
    let (alpha, next) = (a.float(e, 1)?, a.float(e, 2)?);
    for (i, value) in [(1, alpha), (2, next)] {
        if !(value > 0.0 && value <= 1.0) {
            return Err(a.wrong(i, format!("α is a product of numbers below 1, found {value}")));
        }
    }
    let scaled = |e: &mut Evaluator<'_>, x: Node, by: f64| {
        e.tensor_binary(BinaryOp::Mul, &Value::Tensor(x), &Value::Float(by), a.span)
    };
    // √α'·(x − √(1−α)·n)/√α + √(1−α')·n, with both factors as one number each.
    let keep = (next / alpha).sqrt();
    let kept = scaled(e, x, keep)?;
    let spread = scaled(e, noise, (1.0 - next).sqrt() - keep * (1.0 - alpha).sqrt())?;
    e.tensor_binary(BinaryOp::Add, &kept, &spread, a.span)
}
