//! Fused operations as the plain ones that they stand for, one after another. Whoever runs the plain ones, the oracle
//! or the kernels, runs these with the same numbers.

use super::layout::operand;
use super::{Frame, step as interpret, widened};
use crate::error::Result;
use crate::value::Val;
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::{Activation, CachedParts, Real, Reduction};

/// What runs plain operations.
pub(crate) trait Plain {
    /// One step.
    fn step(&self, step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>>;

    /// `x` times each of the matrices.
    fn products(&self, step: &Step, x: &Val, matrices: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
        let product = |w: &Val| one(self, step, Op::Matmul, &[x.clone(), w.clone()], frame);
        matrices.iter().map(product).collect()
    }
}

/// The interpreter.
pub(super) struct Oracle;

impl Plain for Oracle {
    fn step(&self, step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
        interpret(step, operands, frame)
    }
}

/// Whether [`run`] knows the operation.
pub(crate) fn is_fused(op: &Op) -> bool {
    matches!(
        op,
        Op::FusedNormMatmul { .. }
            | Op::FusedSkipNorm { .. }
            | Op::JoinedMatmul { .. }
            | Op::GatedMatmul { .. }
            | Op::Gated { .. }
            | Op::MatmulBias { .. }
            | Op::ExpertFeedForward { .. }
            | Op::SkipLayerNorm { .. }
            | Op::CachedAttention { .. }
    )
}

/// Runs a fused step.
pub(crate) fn run(plain: &(impl Plain + ?Sized), step: &Step, x: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
    match (&step.op, x) {
        (Op::FusedNormMatmul { eps }, [x, g, w]) => {
            let x = one(plain, step, Op::RmsNorm { eps: *eps }, &[x.clone(), g.clone()], frame)?;
            plain.products(step, &x, std::slice::from_ref(w), frame)
        }
        (Op::FusedSkipNorm { eps }, [x, skip, g]) => {
            let sum = one(plain, step, Op::Add, &[x.clone(), skip.clone()], frame)?;
            Ok(vec![one(plain, step, Op::RmsNorm { eps: *eps }, &[sum.clone(), g.clone()], frame)?, sum])
        }
        (Op::SkipLayerNorm { eps }, [x, skip, g, b]) => {
            let sum = one(plain, step, Op::Add, &[x.clone(), skip.clone()], frame)?;
            let operands = [sum.clone(), g.clone(), b.clone()];
            Ok(vec![one(plain, step, Op::LayerNorm { eps: *eps }, &operands, frame)?, sum])
        }
        (Op::JoinedMatmul { parts, norm, bias }, all) => {
            let (x, rest) = normed(plain, step, *norm, all, frame)?;
            let Some((matrices, vectors)) = rest.split_at_checked(*parts as usize) else { return Err(few(step)) };
            let mut products = plain.products(step, &x, matrices, frame)?;
            for (&part, b) in bias.iter().zip(vectors) {
                let Some(product) = products.get_mut(part as usize) else { return Err(few(step)) };
                *product = one(plain, step, Op::Add, &[product.clone(), b.clone()], frame)?;
            }
            Ok(products)
        }
        (Op::GatedMatmul { activation, norm, .. }, all) => {
            let (x, rest) = normed(plain, step, *norm, all, frame)?;
            let Some((matrices, vectors)) = rest.split_at_checked(2) else { return Err(few(step)) };
            let mut products = plain.products(step, &x, matrices, frame)?;
            for (product, b) in products.iter_mut().zip(vectors) {
                *product = one(plain, step, Op::Add, &[product.clone(), b.clone()], frame)?;
            }
            Ok(vec![one(plain, step, activation.gate(), &products, frame)?])
        }
        (Op::Gated { activation }, [gate, up]) => {
            let gate = activate(plain, step, *activation, gate.clone(), frame)?;
            Ok(vec![one(plain, step, Op::Mul, &[gate, up.clone()], frame)?])
        }
        (Op::MatmulBias { activation, norm }, all) => {
            let (x, rest) = normed(plain, step, *norm, all, frame)?;
            let [w, b] = rest else { return Err(few(step)) };
            let product = one(plain, step, Op::Matmul, &[x, w.clone()], frame)?;
            let sum = one(plain, step, Op::Add, &[product, b.clone()], frame)?;
            Ok(vec![activate(plain, step, *activation, sum, frame)?])
        }
        (Op::ExpertFeedForward { activation, joined }, [x, index, weights, matrices @ ..]) => {
            let [inner @ .., down] = matrices else { return Err(few(step)) };
            let mut product = |x: &Val, w: &Val| {
                let operands = [x.clone(), w.clone(), index.clone()];
                one(plain, step, Op::ExpertMatmul, &operands, frame)
            };
            let made = inner.iter().map(|w| product(x, w)).collect::<Result<Vec<_>>>()?;
            let halves = match (joined, made.as_slice()) {
                (false, [_, _]) => made,
                (true, [both]) => {
                    let both = both.tensor(&[])?;
                    let width = both.dim(2)? / 2;
                    vec![Val::Tensor(both.narrow(2, 0, width)?), Val::Tensor(both.narrow(2, width, width)?)]
                }
                _ => return Err(few(step)),
            };
            let y = one(plain, step, activation.gate(), &halves, frame)?;
            let operands = [y, down.clone(), index.clone()];
            let y = one(plain, step, Op::ExpertMatmul, &operands, frame)?;
            let weights = Val::Tensor(weights.tensor(frame.caches)?.unsqueeze(2)?);
            let y = one(plain, step, Op::Mul, &[y, weights], frame)?;
            let sum = Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: false };
            Ok(vec![one(plain, step, sum, &[y], frame)?])
        }
        (Op::CachedAttention { .. }, [q, k, v, rest @ ..]) => cached_attention(plain, step, [q, k, v], rest, frame),
        _ => Err(few(step)),
    }
}

fn few(step: &Step) -> crate::error::ExecutorError {
    operand(step, format!("{} has not the operands that it needs", step.op.name()))
}

/// Runs `op`, which has one result, in the place of `step`.
pub(crate) fn one(
    plain: &(impl Plain + ?Sized),
    step: &Step,
    op: Op,
    operands: &[Val],
    frame: &mut Frame<'_>,
) -> Result<Val> {
    let results = plain.step(&part(step, op), operands, frame)?;
    results.into_iter().next().ok_or_else(|| few(step))
}

/// A step of `op` in the place of `step`.
fn part(step: &Step, op: Op) -> Step {
    let (operands, results, types, frees) = Default::default();
    Step { op, node: step.node, name: step.name.clone(), operands, results, types, frees, cache: step.cache }
}

/// x, after its norm if it has one, and the operands after those of the norm.
fn normed<'v>(
    plain: &(impl Plain + ?Sized),
    step: &Step,
    norm: Option<Real>,
    operands: &'v [Val],
    frame: &mut Frame<'_>,
) -> Result<(Val, &'v [Val])> {
    match (norm, operands) {
        (None, [x, rest @ ..]) => Ok((x.clone(), rest)),
        (Some(eps), [x, g, rest @ ..]) => {
            Ok((one(plain, step, Op::RmsNorm { eps }, &[x.clone(), g.clone()], frame)?, rest))
        }
        _ => Err(few(step)),
    }
}

fn activate(
    plain: &(impl Plain + ?Sized),
    step: &Step,
    activation: Activation,
    x: Val,
    frame: &mut Frame<'_>,
) -> Result<Val> {
    match activation.op() {
        Some(op) => one(plain, step, op, &[x], frame),
        None => Ok(x),
    }
}

fn cached_attention(
    plain: &(impl Plain + ?Sized),
    step: &Step,
    [q, k, v]: [&Val; 3],
    rest: &[Val],
    frame: &mut Frame<'_>,
) -> Result<Vec<Val>> {
    let Some(CachedParts { attention, norm, rope }) = CachedParts::of(&step.op) else { return Err(few(step)) };
    let Op::CachedAttention { heads, kv_heads, head_dim, .. } = step.op else { return Err(few(step)) };
    let (gains, pos) = rest.split_at_checked(if norm.is_some() { 2 } else { 0 }).ok_or_else(|| few(step))?;
    let mut turned = Vec::with_capacity(2);
    for (at, (x, heads)) in [(q, heads), (k, kv_heads)].into_iter().enumerate() {
        if norm.is_none() && rope.is_none() {
            turned.push(x.clone());
            continue;
        }
        let x = widened(x.tensor(frame.caches)?)?;
        let width = heads as usize * head_dim as usize;
        let tokens = x.elem_count().checked_div(width).unwrap_or(0);
        let mut apart = Val::Tensor(x.contiguous()?.reshape((tokens, heads as usize, head_dim as usize))?);
        if let Some(norm) = &norm {
            let gain = gains.get(at).ok_or_else(|| few(step))?;
            apart = one(plain, step, norm.clone(), &[apart, gain.clone()], frame)?;
        }
        if let Some(rope) = &rope {
            let pos = pos.first().ok_or_else(|| few(step))?;
            apart = one(plain, step, rope.clone(), &[apart, pos.clone()], frame)?;
        }
        turned.push(Val::Tensor(apart.tensor(frame.caches)?.contiguous()?.reshape(x.dims())?));
    }
    let [q, k] = turned.try_into().map_err(|_| few(step))?;
    let rows = interpret(&part(step, Op::KvCache), &[k, v.clone()], frame)?;
    let [keys, values] = rows.try_into().map_err(|_| few(step))?;
    Ok(vec![one(plain, step, attention, &[q, keys, values], frame)?])
}
