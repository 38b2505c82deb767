//! Gates: `activation(gate) · up` as one operation, and with the products of gate and up as another.
//!
//! Runs before joined projections, which would else take gate and up: a pair whose guard fails here is left to them.

use super::{Guard, before_rounding, device, projection, rounded, sole};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::Activation;
use tallow_ir::{NodeId, Op, Value};

/// The pass.
pub(in crate::passes) struct GatedActivations;

impl Rule for GatedActivations {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        let &[a, b] = body.operands(at) else { return None };
        let (what, patch) = if *op == Op::Mul {
            let gates: Vec<_> = [(a, b), (b, a)].into_iter().filter(|&(gate, _)| is_gate(body, gate)).collect();
            let tried = gates.into_iter().map(|(gate, up)| gate_of(body, at, gate, up, cx));
            // The first that goes; else why the first does not.
            ("gate", tried.reduce(|first, second| if first.is_ok() { first } else { second.or(first) })?)
        } else {
            let activation = Activation::of_gate(op)?;
            ("gate and up products", products(body, at, activation, a, b, cx))
        };
        patch.map_err(|why| cx.missed(at, what, why)).ok()
    }
}

fn is_gate(body: &Body, value: Value) -> bool {
    let activation = |v: Value| body.maker(v).is_some_and(|(_, op)| Activation::of(op).is_some());
    activation(value) || before_rounding(body, value).is_some_and(|(v, _)| activation(v))
}

/// `activation(x) · up`.
fn gate_of(body: &Body, at: NodeId, gate: Value, up: Value, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    if let Some((_, dtype)) = before_rounding(body, gate) {
        return Err(rounded(body, gate, dtype));
    }
    let Some((node, op)) = body.maker(gate) else { return Err("it has no gate".to_owned()) };
    let (Some(activation), Some(x)) = (Activation::of(op), body.operand(node, 0)) else {
        return Err("it has no gate".to_owned());
    };
    sole(body, gate)?;
    let y = Value { node: at, port: 0 };
    if body.ty(gate).shape != body.ty(up).shape {
        return Err(format!("the shapes {} and {} differ", body.ty(gate).shape, body.ty(up).shape));
    }
    let mut patch = Patch::new(format!("{} gate", op.name()));
    let new = patch.op(body, activation.gate(), &[x.into(), up.into()]).map_err(|e| e.to_string())?;
    patch.replace(y, new);
    Ok(patch)
}

/// A gate over two products of one value.
fn products(body: &Body, at: NodeId, activation: Activation, gate: Value, up: Value, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    let (first, second) = (projection(body, gate)?, projection(body, up)?);
    if first.x != second.x {
        let places = [gate, up].map(|v| body.place(v.node));
        return Err(format!("`{}` and `{}` are products of two values", places[0], places[1]));
    }
    sole(body, gate)?;
    sole(body, up)?;
    let mut operands: Vec<Tap> = vec![first.x.into(), first.matrix.into(), second.matrix.into()];
    let bias = match (first.bias, second.bias) {
        (None, None) => false,
        (Some(a), Some(b)) => {
            operands.extend([Tap::from(a), b.into()]);
            true
        }
        (a, _) => {
            let without = if a.is_none() { gate } else { up };
            return Err(format!("`{}` has no bias", body.place(without.node)));
        }
    };
    let mut patch = Patch::new("gate and up products");
    let op = Op::GatedMatmul { activation, norm: None, bias };
    let new = patch.op(body, op, &operands).map_err(|e| e.to_string())?;
    patch.replace(Value { node: at, port: 0 }, new);
    Ok(patch)
}
