//! The bias of a product, and the activation after it, as part of the product.

use super::{Guard, before_rounding, bias_of, device, rounded, sole, weight};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::Activation;
use tallow_ir::{NodeId, Op, Value};

/// The pass. Activations are taken up by products that have their bias already.
pub(in crate::passes) struct BiasActivation;

impl Rule for BiasActivation {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        if let Some((product, vector)) = bias_of(body, at) {
            return bias(body, at, product, vector, cx).map_err(|why| cx.missed(at, "bias", why)).ok();
        }
        let activation = Activation::of(body.op(at)?)?;
        let x = body.operand(at, 0)?;
        let (biased, rounding) = match before_rounding(body, x) {
            Some((before, dtype)) => (before, Some(dtype)),
            None => (x, None),
        };
        let (_, Op::MatmulBias { activation: Activation::Linear, .. }) = body.maker(biased)? else { return None };
        let patch = match rounding {
            Some(dtype) => Err(rounded(body, x, dtype)),
            None => activate(body, at, activation, x),
        };
        patch.map_err(|why| cx.missed(at, "bias and activation", why)).ok()
    }
}

fn bias(body: &Body, at: NodeId, product: Value, vector: Value, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    sole(body, product)?;
    weight(body, vector, "bias", at)?;
    let &[x, matrix] = body.operands(product.node) else { return Err("it has no product".to_owned()) };
    weight(body, matrix, "matrix", product.node)?;
    let mut patch = Patch::new("product and bias");
    let op = Op::MatmulBias { activation: Activation::Linear, norm: None };
    let new = patch.op(body, op, &[x.into(), matrix.into(), vector.into()]).map_err(|e| e.to_string())?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}

fn activate(body: &Body, at: NodeId, activation: Activation, x: Value) -> Guard<Patch> {
    sole(body, x)?;
    let Some(Op::MatmulBias { norm, .. }) = body.op(x.node) else { return Err("it has no product".to_owned()) };
    let mut patch = Patch::new("product, bias and activation");
    let operands: Vec<Tap> = body.operands(x.node).iter().copied().map(Tap::from).collect();
    let op = Op::MatmulBias { activation, norm: *norm };
    let new = patch.op(body, op, &operands).map_err(|e| e.to_string())?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}
