//! Fused operations on kernels: the plain operations that they stand for, each by its kernel where it has one, and what
//! is done to the operand of several products done once.

use super::{Run, activation, is_f32};
use crate::error::Result;
use crate::interpreter::layout::operand;
use crate::interpreter::{self, Frame, fused};
use crate::kernels::Team;
use crate::kernels::activation::gated;
use crate::kernels::packed::{Packed, Quantized, matmul_packed};
use crate::value::{Val, with_slice};
use crate::weights::Weight;
use candle_core::{Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;

/// Runs a fused step; `None` for another.
pub(super) fn step(team: &Team, step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> super::Outcome {
    match (&step.op, operands) {
        (Op::Gated { activation: by }, [Val::Tensor(gate), Val::Tensor(up)]) if is_f32(gate) && is_f32(up) => {
            if let Some(kind) = by.op().as_ref().and_then(activation) {
                let run = Run { team, step };
                let y = run.map(gate, |g, out| with_slice(up, |u| gated(kind, g, u, out, team)))?;
                return Ok(Some(vec![Val::Tensor(y)]));
            }
        }
        (
            Op::ExpertFeedForward { activation: by, .. },
            [Val::Tensor(x), Val::Tensor(index), Val::Tensor(weights), matrices @ ..],
        ) if is_f32(x) && is_f32(weights) => {
            if let Some(kind) = by.op().as_ref().and_then(activation) {
                let y = Run { team, step }.feed_forward(kind, [x, index, weights], matrices)?;
                if let Some(y) = y {
                    return Ok(Some(vec![Val::Tensor(y)]));
                }
            }
        }
        (op, _) if !fused::is_fused(op) => return Ok(None),
        _ => {}
    }
    fused::run(&Kernels { team }, step, operands, frame).map(Some)
}

/// Kernels, and the interpreter for what has none.
struct Kernels<'a> {
    team: &'a Team,
}

impl fused::Plain for Kernels<'_> {
    fn step(&self, step: &Step, operands: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
        match super::step(self.team, step, operands, frame)? {
            Some(results) => Ok(results),
            None => interpreter::step(step, operands, frame),
        }
    }

    /// The operand is quantised once for all matrices of block encodings; a product has the same bits as on its own.
    fn products(&self, step: &Step, x: &Val, matrices: &[Val], frame: &mut Frame<'_>) -> Result<Vec<Val>> {
        let mut quantized: Option<Quantized> = None;
        let mut results = Vec::with_capacity(matrices.len());
        for matrix in matrices {
            let y = match (x, matrix) {
                (Val::Tensor(x), Val::Weight(w)) if is_f32(x) && Packed::packs(w.view()?.encoding) => {
                    Run { team: self.team, step }.shared(x, w, &mut quantized)?
                }
                _ => fused::one(self, step, Op::Matmul, &[x.clone(), matrix.clone()], frame)?.tensor(frame.caches)?,
            };
            results.push(Val::Tensor(y));
        }
        Ok(results)
    }
}

impl Run<'_> {
    /// The product with a matrix that is packed; `quantized` holds x once it has been quantised.
    pub(super) fn shared(&self, x: &Tensor, weight: &Weight, quantized: &mut Option<Quantized>) -> Result<Tensor> {
        let Some(w) = weight.packed(self.team)? else {
            return Err(operand(self.step, format!("`{}` is no matrix", weight.name())));
        };
        let (m, dims) = self.product_shape(x, w.k(), w.rows())?;
        let mut y = vec![0f32; m * w.rows()];
        if quantized.is_none() {
            let mut made = Quantized::default();
            self.check(with_slice(x, |x| made.quantize(x, m, w.k(), self.team))?)?;
            *quantized = Some(made);
        }
        if let Some(x) = quantized.as_ref() {
            self.check(matmul_packed(x, &w, &mut y, self.team))?;
        }
        Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
    }
}
