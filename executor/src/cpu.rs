//! The CPU path: steps by kernels that read encoded weights as they lie in the file.
//!
//! Each row of every result is computed in one order, whatever the number of rows and threads, so
//! that logits are the same to the bit however a text is cut into calls.

mod experts;
mod fused;

use crate::cache::Part;
use crate::error::{ExecutorError, Result};
use crate::interpreter::attention::numbers;
use crate::interpreter::layout::{ids_of, operand};
use crate::interpreter::limits::{self, elements};
use crate::interpreter::{Frame, rope as positions, segments};
use crate::kernels::activation::{Activation, activate, gated};
use crate::kernels::attention::{attend, attend_segments};
use crate::kernels::packed::Packed;
use crate::kernels::{
    self, AttentionMask, AttentionSpec, KernelError, KvData, KvLayout, KvRows, RopeLayout, Team, gather_rows,
};
use crate::value::{Val, with_slice};
use crate::weights::Weight;
use candle_core::{D, DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::Reduction;

/// What a step gives: its results, or nothing where the interpreter runs it.
type Outcome = Result<Option<Vec<Val>>>;

/// Runs one step where a kernel fits it; `None` leaves it to the interpreter.
pub(crate) fn step(team: &Team, step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Outcome {
    let one = |t: Result<Tensor>| t.map(|t| Some(vec![Val::Tensor(t)]));
    let run = Run { team, step };
    if let Some(results) = fused::step(team, step, operands, frame)? {
        return Ok(Some(results));
    }
    // Kernels read single precision; the interpreter widens.
    if operands.iter().any(|v| matches!(v, Val::Tensor(t) if matches!(t.dtype(), DType::F16 | DType::BF16))) {
        return Ok(None);
    }
    match (&step.op, operands) {
        (Op::Matmul, [Val::Tensor(x), Val::Weight(w)]) if is_f32(x) => one(run.matmul(x, w)),
        (Op::Matmul, [Val::Tensor(x), Val::Tensor(w)]) if is_f32(x) && is_f32(w) => one(run.matmul_computed(x, w)),
        (Op::TokenEmbed, [Val::Tensor(ids), Val::Weight(w)]) => one(run.embed(ids, w)),
        (Op::RmsNorm { eps }, [Val::Tensor(x), gain]) if is_f32(x) => {
            let gain = gain.tensor(frame.caches)?;
            one(run.map(x, |x, out| with_slice(&gain, |g| kernels::rms_norm(x, g, eps.get(), out, team))))
        }
        (Op::LayerNorm { eps }, [Val::Tensor(x), gain, bias]) if is_f32(x) => {
            let (gain, bias) = (gain.tensor(frame.caches)?, bias.tensor(frame.caches)?);
            one(run.map(x, |x, out| {
                with_slice(&gain, |g| with_slice(&bias, |b| kernels::layer_norm(x, g, Some(b), eps.get(), out, team)))?
            }))
        }
        (Op::ExpertMatmul, [Val::Tensor(x), w, Val::Tensor(index)]) if is_f32(x) => {
            run.experts(x, w, index).map(|y| y.map(|y| vec![Val::Tensor(y)]))
        }
        (Op::Reduce { how: Reduction::Sum, axes, keep }, [Val::Tensor(x)])
            if is_f32(x) && x.rank() == 3 && x.elem_count() > 0 && axes == &[1] =>
        {
            one(run.sum_rows(x, *keep))
        }
        (Op::Add | Op::Sub | Op::Mul | Op::Div, [Val::Tensor(a), b]) if is_f32(a) => {
            let b = b.tensor(frame.caches)?;
            if matches!(step.op, Op::Mul) && is_f32(&b) && experts::is_row_factor(a, &b) {
                return one(run.row_factors(a, &b));
            }
            if !is_f32(&b) || !pairs_up(a, &b) {
                return Ok(None);
            }
            one(run.map(a, |a, out| with_slice(&b, |b| pairs(&step.op, a, b, out))))
        }
        (Op::SwiGlu | Op::GeGlu | Op::Glu | Op::FusedSwiGlu, [Val::Tensor(gate), Val::Tensor(up)]) if is_f32(gate) => {
            let activation = match step.op {
                Op::GeGlu => Activation::Gelu,
                Op::Glu => Activation::Sigmoid,
                _ => Activation::Silu,
            };
            one(run.map(gate, |g, out| with_slice(up, |u| gated(activation, g, u, out, team))))
        }
        (op, [Val::Tensor(x)]) if is_f32(x) => match activation(op) {
            Some(kind) => one(run.map(x, |x, out| Ok(activate(kind, x, out, team)))),
            None => Ok(None),
        },
        (Op::Rope { .. } | Op::RopeScaled { .. }, [Val::Tensor(x), pos]) if is_f32(x) => {
            let pos = pos.tensor(frame.caches)?;
            one(run.rope(x, &pos, frame))
        }
        (
            Op::Sdpa { .. }
            | Op::SdpaWindow { .. }
            | Op::FlashAttention { .. }
            | Op::Attention { .. }
            | Op::SdpaCross { .. },
            [Val::Tensor(q), k, v, mask @ ..],
        ) if is_f32(q) => run.attention(q, [k, v], mask.first(), frame),
        (Op::SegmentAttention { .. }, [Val::Tensor(q), k, v, segments, bias @ ..]) if is_f32(q) => {
            let operands = [k, v, segments].map(|x| x.tensor(frame.caches));
            let [k, v, segments] = operands;
            let bias = bias.first().map(|b| b.tensor(frame.caches)).transpose()?;
            run.segments(q, [&k?, &v?, &segments?], bias.as_ref())
        }
        _ => Ok(None),
    }
}

fn is_f32(t: &Tensor) -> bool {
    t.dtype() == DType::F32
}

/// Whether each element of `a` meets one of `b`: of the same shape, or a row for every row of `a`.
fn pairs_up(a: &Tensor, b: &Tensor) -> bool {
    a.dims() == b.dims() || (b.rank() == 1 && a.rank() > 1 && b.dims().last() == a.dims().last())
}

/// `a op b` element by element, `b` repeated for every row where it is shorter. Too little work for
/// threads to share: memory sets the pace.
fn pairs(op: &Op, a: &[f32], b: &[f32], out: &mut [f32]) -> std::result::Result<(), KernelError> {
    match op {
        Op::Add => by_row(a, b, out, |a, b| a + b),
        Op::Sub => by_row(a, b, out, |a, b| a - b),
        Op::Mul => by_row(a, b, out, |a, b| a * b),
        _ => by_row(a, b, out, |a, b| a / b),
    }
    Ok(())
}

fn by_row(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    // Of no elements there are no rows.
    let width = b.len().max(1);
    for (a, out) in a.chunks(width).zip(out.chunks_mut(width)) {
        out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = f(a, b));
    }
}

/// The kernel of an activation.
pub(crate) fn activation(op: &Op) -> Option<Activation> {
    Some(match op {
        Op::Silu => Activation::Silu,
        Op::Gelu { approximate: true } => Activation::GeluTanh,
        Op::Gelu { approximate: false } => Activation::Gelu,
        Op::Sigmoid => Activation::Sigmoid,
        Op::Tanh => Activation::Tanh,
        Op::Relu => Activation::Relu,
        _ => return None,
    })
}

/// The shape and rule of an attention operation.
pub(crate) fn spec(op: &Op) -> Option<AttentionSpec> {
    let n = numbers(op)?;
    Some(AttentionSpec {
        heads: n.heads,
        kv_heads: n.kv_heads,
        head_dim: n.head_dim,
        causal: n.causal,
        window: (n.window > 0).then_some(n.window),
        reach: (n.reach > 0).then_some(n.reach),
        scale: n.scale,
        softcap: (n.softcap > 0.0).then_some(n.softcap),
    })
}

/// A step with the threads that run it.
struct Run<'a> {
    team: &'a Team,
    step: &'a Step,
}

impl Run<'_> {
    /// A kernel's error as this step's.
    fn check(&self, outcome: std::result::Result<(), KernelError>) -> Result<()> {
        outcome.map_err(|e| ExecutorError::Operand {
            op: self.step.op.name(),
            place: self.step.name.clone(),
            cause: e.to_string(),
        })
    }

    /// A tensor of x's shape that `f` fills.
    fn map(
        &self,
        x: &Tensor,
        f: impl FnOnce(&[f32], &mut [f32]) -> Result<std::result::Result<(), KernelError>>,
    ) -> Result<Tensor> {
        let mut out = vec![0f32; x.elem_count()];
        self.check(with_slice(x, |x| f(x, &mut out))??)?;
        Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?)
    }

    fn matmul(&self, x: &Tensor, weight: &Weight) -> Result<Tensor> {
        if Packed::packs(weight.view()?.encoding) {
            return self.shared(x, weight, &mut None);
        }
        let w = weight.rows()?;
        let (m, dims) = self.product_shape(x, w.k(), w.rows())?;
        let mut y = vec![0f32; m * w.rows()];
        self.check(with_slice(x, |x| kernels::matmul(x, m, w.k(), &w, &mut y, self.team))?)?;
        Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
    }

    fn matmul_computed(&self, x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let (n, k) = w.dims2()?;
        let (m, dims) = self.product_shape(x, k, n)?;
        let mut y = vec![0f32; m * n];
        let team = self.team;
        self.check(with_slice(x, |x| with_slice(w, |w| kernels::matmul_f32(x, m, k, w, n, &mut y, team)))??)?;
        Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
    }

    /// Rows of x and the shape of the product.
    fn product_shape(&self, x: &Tensor, k: usize, n: usize) -> Result<(usize, Vec<usize>)> {
        let mut dims = x.dims().to_vec();
        match dims.last_mut() {
            Some(last) if *last == k => *last = n,
            _ => return Err(operand(self.step, format!("x has shape {:?}, expected rows of {k}", x.dims()))),
        }
        limits::product(self.step, &dims)?;
        Ok((dims.iter().rev().skip(1).product(), dims))
    }

    fn embed(&self, ids: &Tensor, weight: &Weight) -> Result<Tensor> {
        let w = weight.rows()?;
        let rows = ids_of(self.step, ids, w.rows())?;
        limits::elements(self.step, &[rows.len(), w.k()])?;
        let mut out = vec![0f32; rows.len() * w.k()];
        self.check(gather_rows(&w, &rows, &mut out, self.team))?;
        let mut dims = ids.dims().to_vec();
        dims.push(w.k());
        Ok(Tensor::from_vec(out, dims, &Device::Cpu)?)
    }

    fn rope(&self, x: &Tensor, pos: &Tensor, frame: &Frame<'_>) -> Result<Tensor> {
        if x.elem_count() == 0 {
            return Ok(x.clone());
        }
        let places = positions::places(self.step, x, pos, frame)?;
        let Some((angles, cos, sin)) = positions::table(&self.step.op, &places, frame.length) else {
            return Err(operand(self.step, "no rotary embedding".into()));
        };
        let width = x.dim(D::Minus1)?;
        // Of [B, heads, tokens, head_dim] each head is a text of one head.
        let heads = if x.rank() == 4 { 1 } else { x.elem_count() / (places.len() * width) };
        let rotary = 2 * angles.frequencies.len();
        let layout = match self.step.op {
            Op::RopeScaled { interleaved: true, .. } => RopeLayout::Interleaved,
            _ => RopeLayout::HalfSplit,
        };
        self.map(x, |x, out| {
            out.copy_from_slice(x);
            let mut texts = out.chunks_exact_mut(places.len() * heads * width);
            Ok(texts.try_for_each(|text| kernels::rope(text, heads, width, rotary, layout, &cos, &sin, self.team)))
        })
    }

    fn attention(&self, q: &Tensor, [k, v]: [&Val; 2], mask: Option<&Val>, frame: &Frame<'_>) -> Outcome {
        let Some(spec) = spec(&self.step.op) else { return Ok(None) };
        let mask = mask.map(|m| m.tensor(frame.caches)).transpose()?;
        let mask = mask.as_ref();
        let y = match (k, v) {
            (Val::Cache(a, Part::Key), Val::Cache(b, Part::Value)) if a == b && q.rank() == 2 => {
                let cache = &frame.caches[*a as usize];
                let (Some(k), Some(v)) = (cache.rows(Part::Key), cache.rows(Part::Value)) else {
                    // Blocks that the graph has yet to decompress.
                    return Ok(None);
                };
                self.attend(&spec, q, k, v, mask)?
            }
            _ => {
                let (k, v) = (k.tensor(frame.caches)?, v.tensor(frame.caches)?);
                if q.rank() == 4 {
                    self.attend_batch(&spec, q, &k, &v, mask)?
                } else {
                    self.attend_tensors(&spec, q, &k, &v, mask)?
                }
            }
        };
        Ok(Some(vec![Val::Tensor(y)]))
    }

    /// Attention inside segments of q, k and v in the wide form.
    fn segments(&self, q: &Tensor, [k, v, segments]: [&Tensor; 3], bias: Option<&Tensor>) -> Outcome {
        let Some(spec) = spec(&self.step.op) else { return Ok(None) };
        let segments = segments::of_numbers(self.step, segments)?;
        let s = q.dim(0)?;
        let bias = bias.map(|b| self.mask(b, spec.heads, s, s)).transpose()?;
        let bias = bias.as_ref().map(|(values, per_head)| AttentionMask { values, per_head: *per_head });
        let y = self.map(q, |q, out| {
            with_slice(k, |k| with_slice(v, |v| attend_segments(&spec, q, k, v, &segments, bias, out, self.team)))?
        })?;
        Ok(Some(vec![Val::Tensor(y)]))
    }

    /// q, k and v with the rows of each token together.
    fn attend_tensors(
        &self,
        spec: &AttentionSpec,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let width = spec.kv_heads * spec.head_dim;
        let [k_rows, v_rows] = [k, v].map(|x| x.elem_count().checked_div(width).unwrap_or(0));
        with_slice(k, |k| {
            with_slice(v, |v| {
                let k = KvRows { data: KvData::F32(k), layout: KvLayout::Rows, rows: k_rows, width };
                let v = KvRows { data: KvData::F32(v), layout: KvLayout::Rows, rows: v_rows, width };
                self.attend(spec, q, k, v, mask)
            })
        })??
    }

    /// As [`Self::attend_tensors`], of keys and values in any form.
    fn attend(
        &self,
        spec: &AttentionSpec,
        q: &Tensor,
        k: KvRows<'_>,
        v: KvRows<'_>,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (s, t) = (q.elem_count() / (spec.heads * spec.head_dim), k.rows);
        let mask = mask.map(|m| self.mask(m, spec.heads, s, t)).transpose()?;
        let mask = mask.as_ref().map(|(values, per_head)| AttentionMask { values, per_head: *per_head });
        self.map(q, |q, out| Ok(attend(spec, q, s, k, v, mask, out, self.team)))
    }

    /// `[B, heads, tokens, head_dim]`: one text of the batch after another.
    fn attend_batch(
        &self,
        spec: &AttentionSpec,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let mut texts = Vec::new();
        for b in 0..q.dim(0)? {
            let one = |x: &Tensor| x.narrow(0, b, 1)?.squeeze(0)?.transpose(0, 1)?.contiguous();
            let mask = match mask {
                Some(m) if m.rank() == 4 => Some(m.narrow(0, b.min(m.dim(0)?.saturating_sub(1)), 1)?.squeeze(0)?),
                other => other.cloned(),
            };
            let (q, k, v) = (one(q)?, one(k)?, one(v)?);
            let y = self.attend_tensors(spec, &q, &k, &v, mask.as_ref())?;
            texts.push(y.transpose(0, 1)?);
        }
        if texts.is_empty() {
            return Ok(q.clone());
        }
        Ok(Tensor::stack(&texts, 0)?)
    }

    /// A mask spread to `[heads, s, t]`, or to `[1, s, t]` where the heads share it; and whether they
    /// do not.
    fn mask(&self, mask: &Tensor, heads: usize, s: usize, t: usize) -> Result<(Vec<f32>, bool)> {
        let per_head = mask.rank() == 3 && mask.dim(0)? != 1;
        let full = [if per_head { heads } else { 1 }, s, t];
        elements(self.step, &full)?;
        Ok((mask.broadcast_as(&full)?.flatten_all()?.to_vec1()?, per_head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::random::RandomState;

    #[test]
    fn attention_and_rotation_have_a_kernel_in_every_layout() {
        let team = Team::new(1).unwrap();
        let ones = |dims: &[usize]| Val::Tensor(Tensor::ones(dims, DType::F32, &Device::Cpu).unwrap());
        let runs = |op: Op, operands: &[Val]| {
            let (results, types, frees) = (vec![], vec![], vec![]);
            let node = tallow_ir::NodeId::default();
            let step = Step { op, node, name: "y".into(), operands: vec![], results, types, frees, cache: None };
            let mut random = RandomState::default();
            let mut frame = Frame { caches: &mut [], tokens: 3, length: 3, random: &mut random, host: None };
            super::step(&team, &step, operands, &mut frame).unwrap().is_some()
        };
        let attention = Op::Sdpa { heads: 2, kv_heads: 1, head_dim: 4, causal: true };
        let rows = [ones(&[3, 8]), ones(&[5, 4]), ones(&[5, 4])];
        let batched = [ones(&[2, 2, 3, 4]), ones(&[2, 1, 5, 4]), ones(&[2, 1, 5, 4])];
        for (operands, masks) in [(&rows, [&[5][..], &[2, 3, 5]]), (&batched, [&[3, 5], &[2, 1, 3, 5]])] {
            assert!(runs(attention.clone(), operands));
            for mask in masks {
                assert!(runs(attention.clone(), &[operands.as_slice(), &[ones(mask)]].concat()));
            }
        }
        let rope = Op::Rope { head_dim: 4, rope_dim: 4, base: 1e4.into() };
        for dims in [&[6, 4][..], &[3, 2, 4], &[2, 2, 3, 4]] {
            assert!(runs(rope.clone(), &[ones(dims), ones(&[])]));
        }
        let half = Val::Tensor(Tensor::ones(4, DType::F16, &Device::Cpu).unwrap());
        assert!(!runs(Op::RmsNorm { eps: 1e-5.into() }, &[ones(&[3, 4]), half]));
    }
}
