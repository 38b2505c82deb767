//! Identities: operations that give back their operand, and constants that become attributes.

use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::{Context, Rule};
use tallow_ir::{DType, NodeId, Op, Value};

/// The pass.
pub(in crate::passes) struct Identities;

impl Rule for Identities {
    fn visit(&self, body: &Body, at: NodeId, _: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        let x = body.operand(at, 0)?;
        if let Some(kept) = kept(body, at, op) {
            let value = Value { node: at, port: 0 };
            return (body.ty(kept) == body.ty(value))
                .then(|| Patch::of(format!("{} changes nothing", op.name()), value, kept));
        }
        let scalar = scalar(body, at, op, x)?;
        let mut patch = Patch::new(format!("{} of a constant as {}", op.name(), scalar.1.name()));
        let new = patch.op(body, scalar.1, &[scalar.0.into()]).ok()?;
        patch.replace(Value { node: at, port: 0 }, new);
        Some(patch)
    }
}

/// The operand that the only result of an operation equals, if its type is that of the result.
fn kept(body: &Body, at: NodeId, op: &Op) -> Option<Value> {
    let operands = body.operands(at);
    let x = *operands.first()?;
    let ty = body.ty(x);
    let same_type = || body.types(at) == [ty.clone()];
    // Half types round what flows through an operation; a weight is read as what it is stored as.
    let plain = !ty.dtype.is_encoding() && !matches!(ty.dtype, DType::F16 | DType::BF16);
    let keeps = match op {
        // 0 added makes 0 of −0; −0 added keeps every number.
        Op::AddScalar { value } => is_minus_zero(value.get()),
        Op::MulScalar { value } => value.get() == 1.0,
        Op::Clamp { min: None, max: None } => true,
        Op::Cast { dtype } => *dtype == ty.dtype,
        Op::Transpose { perm: order } | Op::Permute { dims: order } => order.iter().zip(0..).all(|(&d, at)| d == at),
        Op::Reshape { .. } | Op::Expand { .. } | Op::Flatten { .. } | Op::Unflatten { .. } => same_type(),
        Op::Squeeze { axes } | Op::Unsqueeze { axes } | Op::Flip { axes } => axes.is_empty() && same_type(),
        Op::Concat { .. } => operands.len() == 1,
        Op::Split { sizes, .. } => sizes.len() == 1,
        Op::Chunk { chunks, .. } => *chunks == 1,
        Op::Slice { start, end, axis } => *start == 0 && (*end == i64::MAX || whole(body, x, *axis, *end)),
        Op::Pad { pads, .. } => pads.iter().all(|&n| n == 0),
        Op::Tile { repeats } => repeats.iter().all(|&n| n == 1) && same_type(),
        Op::RepeatEach { times, .. } => *times == 1,
        Op::PixelShuffle { factor } | Op::PixelUnshuffle { factor } => *factor == 1,
        Op::Neg | Op::Not => {
            // Twice is not at all.
            let (inner, other) = body.maker(x)?;
            return (other == op).then(|| body.operand(inner, 0)).flatten().filter(|&v| computed(body, v));
        }
        Op::Add | Op::Sub | Op::Mul | Op::Div => {
            let [a, b] = *operands else { return None };
            let commutes = matches!(op, Op::Add | Op::Mul);
            let neutral = |v: f32| match op {
                Op::Add => is_minus_zero(v) || (v == 0.0 && ty.dtype.is_integer()),
                Op::Sub => v == 0.0 && !is_minus_zero(v),
                _ => v == 1.0,
            };
            return match (splat(body, a), splat(body, b)) {
                (_, Some(v)) if neutral(v) && computed(body, a) => Some(a),
                (Some(v), _) if neutral(v) && commutes && computed(body, b) => Some(b),
                _ => None,
            };
        }
        _ => return None,
    };
    (keeps && plain).then_some(x)
}

fn is_minus_zero(value: f32) -> bool {
    value == 0.0 && value.is_sign_negative()
}

/// Whether a value is held as it is computed with: no half type, no encoding.
fn computed(body: &Body, value: Value) -> bool {
    let dtype = body.ty(value).dtype;
    !dtype.is_encoding() && !matches!(dtype, DType::F16 | DType::BF16)
}

fn whole(body: &Body, x: Value, axis: u32, end: i64) -> bool {
    let size = body.ty(x).shape.dims().get(axis as usize).and_then(|d| d.as_const());
    size.is_some_and(|n| end >= n)
}

/// The one value that a constant holds everywhere.
pub(in crate::passes) fn splat(body: &Body, value: Value) -> Option<f32> {
    match body.maker(value)? {
        (_, Op::Constant { values, .. }) => {
            let first = values.first()?;
            values.iter().all(|v| v == first).then(|| first.get())
        }
        _ => None,
    }
}

/// `x + c`, `x − c`, `x · c` or `x / c` of one constant number as an operation on `x` alone.
fn scalar(body: &Body, at: NodeId, op: &Op, x: Value) -> Option<(Value, Op)> {
    let other = body.operand(at, 1)?;
    let is_f32 = |v: Value| body.ty(v).dtype == DType::F32 && !body.is_weight(v);
    let same = |v: Value| is_f32(v) && *body.ty(v) == body.types(at)[0];
    let (kept, value, swapped) = match (splat(body, x), splat(body, other)) {
        (None, Some(value)) if same(x) && is_f32(other) => (x, value, false),
        (Some(value), None) if same(other) && is_f32(x) => (other, value, true),
        _ => return None,
    };
    let op = match (op, swapped) {
        (Op::Add, _) => Op::AddScalar { value: value.into() },
        (Op::Sub, false) => Op::AddScalar { value: (-value).into() },
        (Op::Mul, _) => Op::MulScalar { value: value.into() },
        // Exact where the divisor is a power of two alone.
        (Op::Div, false) if value.is_normal() && value.to_bits() & 0x007f_ffff == 0 && (1.0 / value).is_normal() => {
            Op::MulScalar { value: (1.0 / value).into() }
        }
        _ => return None,
    };
    Some((kept, op))
}
