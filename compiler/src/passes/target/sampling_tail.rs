//! The steps between logits and the choice of a token that do not change which token is chosen.
//!
//! The index of the largest value, which `Argmax` and the greedy `Sample` give, stays the same under steps that keep the
//! order of a row: softmax along it, a moderate factor above 0, and tanh of what was scaled down before it, as soft
//! caps are. `Sample` by other methods draws from the softmax of `logits / temperature`: a number added to all of a row
//! changes nothing there, and a factor above 0 divides the temperature. All of this holds of numbers as they are; where
//! a step rounds two of them to the same, the token that had the larger one is now chosen for certain. So steps that
//! round much stay: a number added before the largest is taken, and tanh of what may be large. Rows that hold NaN or
//! infinities, or nothing above -1e30, have no largest value worth the name, and may give another index.

use super::{Guard, device, sole};
use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::SampleMethod;
use tallow_ir::{NodeId, Op, Value};

/// Factors that make no logit infinite or 0.
const MODERATE: std::ops::RangeInclusive<f32> = 1e-6..=1e6;

/// The pass. One step goes at a time, nearest to the choice first.
pub(in crate::passes) struct SamplingTail;

/// How a choice reads a row.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// Only the order of values along this dimension.
    Order(usize),
    /// Values, up to a number added to the row, over a temperature.
    Values,
}

impl Rule for SamplingTail {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        let x = body.operand(at, 0)?;
        let rank = body.ty(x).shape.rank();
        let reads = match op {
            Op::Argmax { dim } => Reads::Order(axis(*dim, rank)),
            Op::Sample { method: SampleMethod::Greedy, .. } => Reads::Order(rank.checked_sub(1)?),
            Op::Sample { .. } => Reads::Values,
            _ => return None,
        };
        let (node, step) = body.maker(x)?;
        let what = match step {
            Op::Softmax { .. } => "softmax",
            Op::MulScalar { .. } => "scale",
            Op::AddScalar { .. } => "shift",
            Op::Tanh => "tanh",
            _ => return None,
        };
        fuse(body, at, x, node, reads, cx).map_err(|why| cx.missed(at, what, why)).ok()
    }
}

fn axis(dim: i32, rank: usize) -> usize {
    if dim < 0 { (rank as i64 + i64::from(dim)) as usize } else { dim as usize }
}

fn fuse(body: &Body, at: NodeId, x: Value, node: NodeId, reads: Reads, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    sole(body, x)?;
    let (Some(step), Some(op), Some(before)) = (body.op(node), body.op(at), body.operand(node, 0)) else {
        return Err("it has no operand".to_owned());
    };
    if !body.ty(before).dtype.computes_as().eq(&tallow_ir::DType::F32) {
        return Err(format!("`{}` holds no real numbers", body.place(before.node)));
    }
    let chosen = match (step, reads) {
        (Op::Softmax { dim }, Reads::Order(along)) if axis(*dim, body.ty(x).shape.rank()) == along => op.clone(),
        (Op::Softmax { .. }, Reads::Order(_)) => return Err("the softmax runs along another dimension".to_owned()),
        (Op::Tanh, Reads::Order(_)) => match body.maker(before) {
            Some((_, Op::MulScalar { value })) if value.get() > 0.0 && value.get() <= 1.0 => op.clone(),
            _ => return Err("tanh rounds large logits to the same, and nothing scales them down before".to_owned()),
        },
        (Op::Softmax { .. } | Op::Tanh, Reads::Values) => {
            return Err("the token is drawn by the values, which it changes".to_owned());
        }
        (Op::AddScalar { .. }, Reads::Order(_)) => {
            return Err("a number added may round two logits to the same".to_owned());
        }
        (Op::AddScalar { value }, Reads::Values) if value.get().is_finite() => op.clone(),
        (Op::MulScalar { value }, _) if !(value.get().is_finite() && value.get() > 0.0) => {
            return Err(format!("the factor {} is not above 0", value.get()));
        }
        (Op::MulScalar { value }, Reads::Order(_)) if !MODERATE.contains(&value.get()) => {
            return Err(format!("the factor {:?} is so far from 1 that logits may become infinite or 0", value.get()));
        }
        (Op::MulScalar { .. }, Reads::Order(_)) => op.clone(),
        (Op::MulScalar { value }, Reads::Values) => warmer(op, value.get())?,
        _ => return Err("it adds no finite number".to_owned()),
    };
    let mut patch = Patch::new(format!("{} before {}", step.name(), op.name()));
    let new = patch.op(body, chosen, &[before.into()]).map_err(|e| e.to_string())?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}

/// `Sample` of logits that are `factor` times as large as those that it is given.
fn warmer(op: &Op, factor: f32) -> Guard<Op> {
    let Op::Sample { method, temperature, p, k } = op else { return Err("it draws no token".to_owned()) };
    let divided = temperature.get() / factor;
    // At 0 the likeliest token is taken, whatever the factor.
    if temperature.get() != 0.0 && !divided.is_normal() {
        return Err(format!("the temperature would become {divided}"));
    }
    Ok(Op::Sample { method: *method, temperature: divided.into(), p: *p, k: *k })
}
