//! The feed-forward of experts as one operation: products with the chosen matrices, the gate, and the weighted sum.

use super::{Guard, device, sole, weight};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::{Activation, Reduction};
use tallow_ir::{NodeId, Op, Value};

/// The pass. Gates are operations of their own by now.
pub(in crate::passes) struct Experts;

impl Rule for Experts {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let Some(Op::Reduce { how: Reduction::Sum, axes, keep: false }) = body.op(at) else { return None };
        if axes.as_slice() != [1] {
            return None;
        }
        let weighted = body.operand(at, 0)?;
        let (y, weights) = weighted_rows(body, weighted)?;
        let down = chosen(body, y)?;
        feed_forward(body, at, weighted, weights, y, &down, cx).map_err(|why| cx.missed(at, "experts", why)).ok()
    }
}

/// Rows of chosen experts `[S, chosen, K]` times a weight of each, `[S, chosen]`.
fn weighted_rows(body: &Body, value: Value) -> Option<(Value, Value)> {
    let (node, Op::Mul) = body.maker(value)? else { return None };
    let &[a, b] = body.operands(node) else { return None };
    [(a, b), (b, a)].into_iter().find(|&(y, weights)| {
        let column = matches!(body.maker(weights), Some((_, Op::Unsqueeze { axes })) if matches!(axes[..], [2] | [-1]));
        column && chosen(body, y).is_some()
    })
}

/// An `ExpertMatmul`.
struct Product {
    x: Value,
    matrices: Value,
    index: Value,
}

/// The product with chosen matrices that gives a value.
fn chosen(body: &Body, value: Value) -> Option<Product> {
    let (node, Op::ExpertMatmul) = body.maker(value)? else { return None };
    let &[x, matrices, index] = body.operands(node) else { return None };
    Some(Product { x, matrices, index })
}

fn feed_forward(
    body: &Body,
    at: NodeId,
    weighted: Value,
    column: Value,
    y: Value,
    down: &Product,
    cx: &Context<'_>,
) -> Guard<Patch> {
    device(cx)?;
    sole(body, weighted)?;
    sole(body, y)?;
    weight(body, down.matrices, "matrix", y.node)?;
    let Some(weights) = body.operand(column.node, 0) else { return Err("it has no weights".to_owned()) };
    if body.ty(weights).shape != body.ty(down.index).shape {
        return Err(format!("`{}` holds no weight for each choice", body.place(column.node)));
    }
    let gate = body.maker(down.x).and_then(|(node, op)| Some((node, Activation::of_gate(op)?)));
    let Some((node, activation)) = gate else { return Err(format!("`{}` is no gate", body.place(down.x.node))) };
    sole(body, down.x)?;
    let &[gate, up] = body.operands(node) else { return Err("it has no gate".to_owned()) };
    let (joined, x, matrices) = inner(body, gate, up, down.index)?;
    let mut operands = vec![Tap::from(x), down.index.into(), weights.into()];
    operands.extend(matrices.into_iter().chain([down.matrices]).map(Tap::from));
    let mut patch = Patch::new("feed-forward of experts");
    let op = Op::ExpertFeedForward { activation, joined };
    let new = patch.op(body, op, &operands).map_err(|e| e.to_string())?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}

/// The products that give the operands of a gate, of the experts `index`: whether they are halves of one, their `x`, and
/// their matrices.
fn inner(body: &Body, gate: Value, up: Value, index: Value) -> Guard<(bool, Value, Vec<Value>)> {
    sole(body, gate)?;
    sole(body, up)?;
    let halves = match body.maker(gate) {
        Some((node, Op::Split { axis: 2, sizes })) if matches!(sizes[..], [a, b] if a == b) => {
            ((gate.port, up.node, up.port) == (0, node, 1)).then(|| body.operand(node, 0)).flatten()
        }
        _ => None,
    };
    let values = halves.map_or(vec![gate, up], |both| vec![both]);
    let mut products = Vec::new();
    for &value in &values {
        sole(body, value)?;
        let product = chosen(body, value).ok_or_else(|| format!("`{}` is no product", body.place(value.node)))?;
        weight(body, product.matrices, "matrix", value.node)?;
        if product.index != index {
            return Err(format!("`{}` has experts of its own", body.place(value.node)));
        }
        products.push(product);
    }
    let x = products[0].x;
    if products.iter().any(|product| product.x != x) {
        return Err("gate and up are products of two values".to_owned());
    }
    if body.ty(x).shape.rank() != 2 {
        return Err(format!("`{}` has rows of its own for each choice", body.place(x.node)));
    }
    Ok((halves.is_some(), x, products.into_iter().map(|product| product.matrices).collect()))
}
