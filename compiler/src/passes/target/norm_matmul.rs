//! A `RmsNorm` that one product alone reads, as part of the product: plain, joined, gated or with a bias.

use super::{Guard, before_rounding, device, rounded, sole, weight};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::Real;
use tallow_ir::{NodeId, Op, Value};

/// The pass.
pub(in crate::passes) struct NormMatmul;

impl Rule for NormMatmul {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        let x = body.operand(at, 0)?;
        let (made, rounding) = match before_rounding(body, x) {
            Some((before, dtype)) => (before, Some(dtype)),
            None => (x, None),
        };
        let (norm, &Op::RmsNorm { eps }) = body.maker(made)? else { return None };
        let fused = with_norm(op, eps)?;
        let patch = match rounding {
            Some(dtype) => Err(rounded(body, x, dtype)),
            None => fuse(body, at, norm, fused, cx),
        };
        patch.map_err(|why| cx.missed(at, "norm and product", why)).ok()
    }
}

/// A product of x as one of its norm.
fn with_norm(op: &Op, eps: Real) -> Option<Op> {
    let norm = Some(eps);
    Some(match op {
        Op::Matmul => Op::FusedNormMatmul { eps },
        Op::JoinedMatmul { parts, norm: None, bias } => Op::JoinedMatmul { parts: *parts, norm, bias: bias.clone() },
        Op::GatedMatmul { activation, norm: None, bias } => {
            Op::GatedMatmul { activation: *activation, norm, bias: *bias }
        }
        Op::MatmulBias { activation, norm: None } => Op::MatmulBias { activation: *activation, norm },
        _ => return None,
    })
}

fn fuse(body: &Body, at: NodeId, norm: NodeId, op: Op, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    sole(body, Value { node: norm, port: 0 })?;
    let operands = body.operands(at);
    if let (Some(Op::Matmul), Some(&matrix)) = (body.op(at), operands.get(1)) {
        weight(body, matrix, "matrix", at)?;
    }
    let taps: Vec<Tap> = body.operands(norm).iter().chain(&operands[1..]).copied().map(Tap::from).collect();
    let mut patch = Patch::new("norm and product");
    let results = patch.ops(body, op, &taps).map_err(|e| e.to_string())?;
    body.results(at).zip(results).for_each(|(old, new)| patch.replace(old, new));
    Ok(patch)
}
