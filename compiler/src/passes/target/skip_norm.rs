//! A sum of two values of one shape and its norm as one operation, which gives both: other readers of the sum read it
//! from there.

use super::{Guard, before_rounding, device, rounded, settled};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::{NodeId, Op, Value};

/// The pass.
pub(in crate::passes) struct SkipNorm;

impl Rule for SkipNorm {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = match body.op(at)? {
            Op::RmsNorm { eps } => Op::FusedSkipNorm { eps: *eps },
            Op::LayerNorm { eps } => Op::SkipLayerNorm { eps: *eps },
            _ => return None,
        };
        let x = body.operand(at, 0)?;
        let (sum, rounding) = match before_rounding(body, x) {
            Some((before, dtype)) => (before, Some(dtype)),
            None => (x, None),
        };
        let (add, Op::Add) = body.maker(sum)? else { return None };
        let patch = match rounding {
            Some(dtype) => Err(rounded(body, x, dtype)),
            None => fuse(body, at, add, op, cx),
        };
        patch.map_err(|why| cx.missed(at, "sum and norm", why)).ok()
    }
}

fn fuse(body: &Body, at: NodeId, add: NodeId, op: Op, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    let &[a, b] = body.operands(add) else { return Err("the sum has no two operands".to_owned()) };
    let (left, right) = (&body.ty(a).shape, &body.ty(b).shape);
    if left != right {
        return Err(format!("the shapes {left} and {right} of the sum differ"));
    }
    let vectors = &body.operands(at)[1..];
    // Such a vector may itself depend on the sum.
    if let Some(vector) = vectors.iter().find(|&&v| !settled(body, v)) {
        return Err(format!("`{}` is computed in every call", body.place(vector.node)));
    }
    let mut patch = Patch::new("sum and norm");
    let taps: Vec<Tap> = [a, b].iter().chain(vectors).copied().map(Tap::from).collect();
    let results = patch.ops(body, op, &taps).map_err(|e| e.to_string())?;
    let olds = [Value { node: at, port: 0 }, Value { node: add, port: 0 }];
    olds.into_iter().zip(results).for_each(|(old, new)| patch.replace(old, new));
    Ok(patch)
}
