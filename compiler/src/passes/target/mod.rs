//! Passes that fuse operations for one device.
//!
//! Their order, and why: gates first, since they take two products of a value that would otherwise be joined with
//! others of it; then experts, whose gates these are; then joined projections, which know biases of their own; then the bias of single products; then norms,
//! which go into any product that is left, whatever the passes before made of it; then sums with the norms that no
//! product took. Attention and the choice of tokens stand for themselves.

pub(super) mod bias_activation;
pub(super) mod cached_attention;
pub(super) mod experts;
pub(super) mod gated_activations;
pub(super) mod joined_projections;
pub(super) mod norm_matmul;
pub(super) mod sampling_tail;
pub(super) mod skip_norm;

use crate::body::Body;
use crate::pipeline::Context;
use tallow_ir::{DType, NodeId, NodeKind, Op, Value};

/// What a guard says: nothing, or why the candidate is left alone.
type Guard<T = ()> = Result<T, String>;

/// The device runs fused operations.
fn device(cx: &Context<'_>) -> Guard {
    if cx.facts.fused { Ok(()) } else { Err(format!("device {} runs no fused operations", cx.facts.name)) }
}

/// A value that the candidate reads is read by nothing else, and is no output.
fn sole(body: &Body, value: Value) -> Guard {
    if body.uses(value) == 1 {
        return Ok(());
    }
    let place = body.place(value.node);
    Err(match body.output_names(value).first() {
        Some(name) => format!("`{place}` is the output `{name}`"),
        None => format!("`{place}` has {} readers", body.uses(value)),
    })
}

/// A matrix or vector of a candidate is a weight.
fn weight(body: &Body, value: Value, what: &str, of: NodeId) -> Guard {
    if body.is_weight(value) { Ok(()) } else { Err(format!("the {what} of `{}` is computed", body.place(of))) }
}

/// The value as it was before it was rounded to a half type, if that is what makes it, and the type: fusing what makes
/// it with what reads it would leave the rounding out.
fn before_rounding(body: &Body, value: Value) -> Option<(Value, DType)> {
    match body.maker(value)? {
        (cast, Op::Cast { dtype: dtype @ (DType::F16 | DType::BF16) }) => Some((body.operand(cast, 0)?, *dtype)),
        _ => None,
    }
}

/// The guard that [`before_rounding`] stands for.
fn rounded(body: &Body, value: Value, dtype: DType) -> String {
    format!("`{}` rounds to {dtype} in between", body.place(value.node))
}

/// The operands of an `Add` of a product `x · Wᵀ` and a vector of as many values: product, vector.
fn bias_of(body: &Body, add: NodeId) -> Option<(Value, Value)> {
    let (Some(Op::Add), [a, b]) = (body.op(add), body.operands(add)) else { return None };
    [(*a, *b), (*b, *a)].into_iter().find(|&(product, vector)| {
        matches!(body.maker(product), Some((_, Op::Matmul)))
            && body.ty(vector).shape.rank() == 1
            && body.ty(vector).shape.last() == body.ty(product).shape.last()
    })
}

/// A product `x · Wᵀ` of a weight, with its bias where the value has one.
struct Projection {
    x: Value,
    matrix: Value,
    bias: Option<Value>,
}

/// The projection that gives a value.
fn projection(body: &Body, value: Value) -> Guard<Projection> {
    let place = || body.place(value.node);
    let Some((node, op)) = body.maker(value) else { return Err(format!("`{}` is no product", place())) };
    let (product, bias) = match op {
        Op::Matmul => (node, None),
        Op::LoraApply { .. } => return Err(format!("`{}` has a low-rank adapter", place())),
        _ => match bias_of(body, node) {
            Some((product, vector)) => {
                sole(body, product)?;
                weight(body, vector, "bias", node)?;
                (product.node, Some(vector))
            }
            None => return Err(format!("`{}` is no product", place())),
        },
    };
    let &[x, matrix] = body.operands(product) else { return Err(format!("`{}` is no product", place())) };
    weight(body, matrix, "matrix", product)?;
    Ok(Projection { x, matrix, bias })
}

/// Whether a value is the same in every call: made of weights and constants alone, as far as a short look tells.
fn settled(body: &Body, value: Value) -> bool {
    let (mut open, mut left) = (vec![value], 16);
    while let Some(value) = open.pop() {
        let fixed = match body.kind(value.node) {
            NodeKind::Weight(_) => true,
            NodeKind::Input(_) => false,
            NodeKind::Op(op) => {
                let operands = body.operands(value.node);
                open.extend(operands.iter().take(left));
                op.info().effect == tallow_ir::Effect::Pure && operands.len() < left
            }
        };
        left = left.saturating_sub(1);
        if !fixed || left == 0 {
            return false;
        }
    }
    true
}
