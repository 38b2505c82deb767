//! Batch normalisation with stored statistics, folded into the convolution before it.
//!
//! `(conv(x, W) + b − mean) · s + β` with `s = γ / √(variance + ε)` is the convolution with `W · s` for each channel and
//! the bias `(b − mean) · s + β`. Both follow from weights alone, so that they are computed once.

use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::{NodeId, Op, RuleError, Value};

const WHAT: &str = "batch norm + convolution";

/// The pass.
pub(in crate::passes) struct BatchNorm;

impl Rule for BatchNorm {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let &Op::BatchNorm { eps, .. } = body.op(at)? else { return None };
        let [x, gain, shift, mean, variance] = *body.operands(at) else { return None };
        let (conv, op) = body.maker(x)?;
        if !is_convolution(op) {
            return None;
        }
        let mut missed = |why: String| {
            cx.missed(at, WHAT, why);
            None
        };
        if matches!(op, Op::ConvTranspose1d { .. } | Op::ConvTranspose2d { .. }) {
            return missed(format!("the channels of {} are no rows of its weight", op.name()));
        }
        if let Err(why) = body.only_reader(x) {
            return missed(why);
        }
        let operands = body.operands(conv);
        let fixed = [gain, shift, mean, variance];
        if let Some(&computed) = fixed.iter().chain(&operands[1..]).find(|&&v| !body.is_weight(v)) {
            return missed(format!("`{}` is no weight", body.place(computed.node)));
        }
        let weight = body.ty(operands[1]);
        if weight.dtype.is_block() {
            return missed(format!("the weight is {}, and would have to be kept decoded", weight.dtype));
        }
        match fold(body, at, conv, op, eps.get(), [gain, shift, mean, variance]) {
            Ok(patch) => Some(patch),
            Err(why) => missed(why.to_string()),
        }
    }
}

fn fold(
    body: &Body,
    at: NodeId,
    conv: NodeId,
    op: &Op,
    eps: f32,
    [gain, shift, mean, variance]: [Value; 4],
) -> Result<Patch, RuleError> {
    let operands = body.operands(conv);
    let mut patch = Patch::new(WHAT);
    let spread = patch.op(body, Op::AddScalar { value: eps.into() }, &[variance.into()])?;
    let inverse = patch.op(body, Op::Rsqrt, &[spread])?;
    let scale = patch.op(body, Op::Mul, &[inverse, gain.into()])?;
    let rank = body.ty(operands[1]).shape.rank();
    let column = std::iter::once(-1).chain(std::iter::repeat_n(1, rank.saturating_sub(1))).collect();
    let rows = patch.op(body, Op::Reshape { shape: column }, &[scale])?;
    let weight = patch.op(body, Op::Mul, &[operands[1].into(), rows])?;
    let centred = match operands.get(2) {
        Some(&bias) => patch.op(body, Op::Sub, &[bias.into(), mean.into()])?,
        None => patch.op(body, Op::Neg, &[mean.into()])?,
    };
    let scaled = patch.op(body, Op::Mul, &[centred, scale])?;
    let bias = patch.op(body, Op::Add, &[scaled, shift.into()])?;
    let new: Tap = patch.op(body, op.clone(), &[operands[0].into(), weight, bias])?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}

fn is_convolution(op: &Op) -> bool {
    matches!(
        op,
        Op::Conv1d { .. }
            | Op::Conv2d { .. }
            | Op::Conv3d { .. }
            | Op::CausalConv1d { .. }
            | Op::DepthwiseConv { .. }
            | Op::PatchEmbed { .. }
            | Op::ConvTranspose1d { .. }
            | Op::ConvTranspose2d { .. }
    )
}
