//! Fused operations on kernels: the plain operations that they stand for, each by its kernel where it has one, and what
//! is done to the operand of several products done once.

use super::{Run, activation, is_f32};
use crate::error::Result;
use crate::interpreter::{self, Frame, fused};
use crate::kernels::activation::gated;
use crate::kernels::{Activations, Team, matmul_quantized};
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
        let mut quantized: Option<Activations> = None;
        let mut results = Vec::with_capacity(matrices.len());
        for matrix in matrices {
            let y = match (x, matrix) {
                (Val::Tensor(x), Val::Weight(w)) if is_f32(x) && w.view()?.encoding.is_block() => {
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
    /// The product with a matrix of a block encoding; `quantized` holds x once it has been quantised.
    fn shared(&self, x: &Tensor, weight: &Weight, quantized: &mut Option<Activations>) -> Result<Tensor> {
        let w = self.rows(weight)?;
        let (m, dims) = self.product_shape(x, w.k(), w.rows())?;
        let mut y = vec![0f32; m * w.rows()];
        if quantized.is_none() {
            let mut made = Activations::default();
            self.check(with_slice(x, |x| made.requantize(x, m, w.k(), self.team))?)?;
            *quantized = Some(made);
        }
        if let Some(x) = quantized.as_ref() {
            self.check(matmul_quantized(x, &w, &mut y, self.team))?;
        }
        Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
    }
}
