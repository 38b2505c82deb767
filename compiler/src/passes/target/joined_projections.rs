//! Joined projections: all products of one value with weights as one operation, so that what a kernel does to the
//! value first is done once. Each product may bring its bias along.

use super::{bias_of, device, sole, weight};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::{NodeId, Op, Value};

/// What remarks call it.
const WHAT: &str = "joined projections";

/// The pass.
pub(in crate::passes) struct JoinedProjections;

/// A product that can be joined.
struct Part {
    matrix: Value,
    bias: Option<Value>,
    /// What the part takes the place of.
    result: Value,
}

impl Rule for JoinedProjections {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        // What reads a weight first is computed once.
        if body.is_weight(Value { node: at, port: 0 }) {
            return None;
        }
        if let Some((what, why)) = left_out(body, at) {
            cx.missed(at, what, why);
        }
        body.results(at).find_map(|x| join(body, at, x, cx))
    }
}

fn join(body: &Body, at: NodeId, x: Value, cx: &mut Context<'_>) -> Option<Patch> {
    if body.uses(x) < 2 {
        return None;
    }
    let multiplies = |id: NodeId| matches!(body.op(id), Some(Op::Matmul | Op::LoraApply { .. }));
    let readers: Vec<NodeId> =
        body.readers(x).into_iter().filter(|&(id, at)| at == 0 && multiplies(id)).map(|(id, _)| id).collect();
    if readers.len() < 2 {
        return None;
    }
    if let Err(why) = device(cx) {
        cx.missed(at, WHAT, why);
        return None;
    }
    let parts: Vec<Part> = readers.into_iter().filter_map(|id| part(body, id)).collect();
    if parts.len() < 2 {
        cx.missed(at, WHAT, "fewer than two of its products can be joined");
        return None;
    }
    let names: Vec<String> = parts.iter().take(4).map(|p| body.place(p.result.node)).collect();
    let more = if parts.len() > names.len() { ", …" } else { "" };
    let mut patch = Patch::new(format!("{} products as one: {}{more}", parts.len(), names.join(", ")));
    let bias = (0u32..).zip(&parts).filter(|(_, p)| p.bias.is_some()).map(|(i, _)| i).collect();
    let mut operands = vec![Tap::from(x)];
    operands.extend(parts.iter().map(|p| Tap::from(p.matrix)));
    operands.extend(parts.iter().filter_map(|p| p.bias).map(Tap::from));
    let op = Op::JoinedMatmul { parts: parts.len() as u32, norm: None, bias };
    match patch.ops(body, op, &operands) {
        Ok(results) => {
            parts.iter().zip(results).for_each(|(part, new)| patch.replace(part.result, new));
            Some(patch)
        }
        Err(why) => {
            cx.missed(at, WHAT, why.to_string());
            None
        }
    }
}

/// A product as a part, unless it must stay on its own.
fn part(body: &Body, product: NodeId) -> Option<Part> {
    let &[_, matrix] = body.operands(product) else { return None };
    weight(body, matrix, "matrix", product).ok()?;
    let result = Value { node: product, port: 0 };
    if body.uses(result) == 1
        && let Some(&(add, _)) = body.readers(result).first()
        && let Some((of, vector)) = bias_of(body, add)
        && of == result
        && body.is_weight(vector)
    {
        return Some(Part { matrix, bias: Some(vector), result: Value { node: add, port: 0 } });
    }
    Some(Part { matrix, bias: None, result })
}

/// Why a product is none of those that are joined, or its bias is not: noted where the node itself is visited.
fn left_out(body: &Body, at: NodeId) -> Option<(&'static str, String)> {
    let shared = |x: Value| body.uses(x) > 1;
    match (body.op(at)?, body.operands(at)) {
        (Op::LoraApply { .. }, &[x, ..]) if shared(x) => Some((WHAT, "it has a low-rank adapter".to_owned())),
        (Op::Matmul, &[x, matrix]) if shared(x) => weight(body, matrix, "matrix", at).err().map(|why| (WHAT, why)),
        (Op::Add, &[a, b]) => {
            let joined = |v: Value| matches!(body.op(v.node), Some(Op::JoinedMatmul { .. }));
            let product = [(a, b), (b, a)].into_iter().find(|&(p, v)| joined(p) && body.ty(v).shape.rank() == 1)?.0;
            sole(body, product).err().map(|why| ("bias of a joined projection", why))
        }
        _ => None,
    }
}
