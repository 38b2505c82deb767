//! Products with chosen experts, and the two small operations that make one row of what they give: each row of a block
//! times its weight, and the sum of a block's rows.

use super::Run;
use crate::error::Result;
use crate::interpreter::layout::{ids_of, operand};
use crate::interpreter::limits;
use crate::kernels::activation::Activation;
use crate::kernels::experts::{
    ExpertMatrices, ExpertRows, Grouped, Inner, experts_exact, experts_packed, feed_forward_packed,
};
use crate::kernels::matmul::ExactRows;
use crate::kernels::packed::Packed;
use crate::value::{Val, with_slice};
use crate::weights::Weight;
use candle_core::{Device, Tensor};

impl Run<'_> {
    /// `ExpertMatmul`; `None` for matrices that no kernel reads.
    pub(super) fn experts(&self, x: &Tensor, w: &Val, index: &Tensor) -> Result<Option<Tensor>> {
        let dims: Vec<usize> = match w {
            Val::Weight(weight) => weight.view()?.shape.iter().map(|&n| n as usize).collect(),
            Val::Tensor(t) if super::is_f32(t) => t.dims().to_vec(),
            _ => return Ok(None),
        };
        let (&[experts, n, k], &[tokens, chosen]) = (dims.as_slice(), index.dims()) else { return Ok(None) };
        let shared_by = if x.rank() == 3 { 1 } else { chosen };
        let expected = if x.rank() == 3 { vec![tokens, chosen, k] } else { vec![tokens, k] };
        if x.dims() != expected {
            return Err(operand(self.step, format!("x has shape {:?}, expected {expected:?}", x.dims())));
        }
        limits::product(self.step, &[tokens, chosen, n])?;
        let mut y = vec![0f32; tokens * chosen * n];
        if !y.is_empty() && k > 0 {
            let ids = ids_of(self.step, index, experts)?;
            let mut grouped = None;
            self.check(Grouped::new(&ids, experts).map(|made| grouped = Some(made)))?;
            let Some(grouped) = grouped else { return Ok(None) };
            with_slice(x, |x| {
                let rows = ExpertRows { x, k, shared_by };
                match w {
                    Val::Weight(w) => self.stored(rows, &grouped, w, [experts, n], &mut y),
                    _ => {
                        let w = w.tensor(&[])?;
                        with_slice(&w, |w| {
                            let each: Vec<_> = w.chunks(n * k).map(|w| ExactRows::of_f32(w, n, k)).collect();
                            self.check(experts_exact(rows, &grouped, &each, n, &mut y, self.team))
                        })?
                    }
                }
            })??;
        }
        Ok(Some(Tensor::from_vec(y, (tokens, chosen, n), &Device::Cpu)?))
    }

    /// `ExpertFeedForward` with packed matrices; `None` for others, and for experts that share panels.
    pub(super) fn feed_forward(
        &self,
        activation: Activation,
        [x, index, weights]: [&Tensor; 3],
        matrices: &[Val],
    ) -> Result<Option<Tensor>> {
        let mut packed = Vec::with_capacity(matrices.len());
        let mut experts = 0;
        for matrix in matrices {
            let Val::Weight(weight) = matrix else { return Ok(None) };
            let view = weight.view()?;
            if !Packed::packs(view.encoding) {
                return Ok(None);
            }
            experts = view.shape.first().map_or(0, |&n| n as usize);
            let Some(w) = weight.packed(self.team)? else { return Ok(None) };
            packed.push(w);
        }
        let (inner, down) = match packed[..] {
            [gate, up, down] => (Inner::Apart(gate, up), down),
            [both, down] => (Inner::Joined(both), down),
            _ => return Ok(None),
        };
        let matrices = ExpertMatrices { experts, inner, down };
        let (Some([k, width, columns]), &[tokens, chosen]) = (matrices.widths(), index.dims()) else { return Ok(None) };
        if tokens == 0 || chosen == 0 || x.dims() != [tokens, k] || weights.dims() != [tokens, chosen] {
            return Ok(None);
        }
        limits::product(self.step, &[tokens, chosen, width.max(columns)])?;
        let ids = ids_of(self.step, index, experts)?;
        let mut grouped = None;
        self.check(Grouped::new(&ids, experts).map(|made| grouped = Some(made)))?;
        let Some(grouped) = grouped else { return Ok(None) };
        let mut y = vec![0f32; tokens * columns];
        self.check(with_slice(x, |x| {
            with_slice(weights, |weights| {
                feed_forward_packed(x, &grouped, weights, &matrices, activation, &mut y, self.team)
            })
        })??)?;
        Ok(Some(Tensor::from_vec(y, (tokens, columns), &Device::Cpu)?))
    }

    /// Products with matrices of a file.
    fn stored(
        &self,
        rows: ExpertRows<'_>,
        grouped: &Grouped,
        weight: &Weight,
        [experts, n]: [usize; 2],
        y: &mut [f32],
    ) -> Result<()> {
        if Packed::packs(weight.view()?.encoding) {
            let Some(w) = weight.packed(self.team)? else {
                return Err(operand(self.step, format!("`{}` holds no matrices", weight.name())));
            };
            return self.check(experts_packed(rows, grouped, &w, n, y, self.team));
        }
        let weights = (0..experts).map(|e| weight.rows_of(e)).collect::<Result<Vec<_>>>()?;
        let matrices = weights.iter().map(ExactRows::of_weights).collect::<std::result::Result<Vec<_>, _>>();
        let matrices = matrices.map_err(|e| weight.fault(&e))?;
        self.check(experts_exact(rows, grouped, &matrices, n, y, self.team))
    }

    /// `a` `[…, n]` times `b` `[…, 1]`: a factor for each row.
    pub(super) fn row_factors(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let width = a.dims().last().copied().unwrap_or(1).max(1);
        with_slice(b, |factors| {
            self.map(a, |a, out| {
                for ((a, out), factor) in a.chunks(width).zip(out.chunks_mut(width)).zip(factors) {
                    out.iter_mut().zip(a).for_each(|(out, a)| *out = a * factor);
                }
                Ok(Ok(()))
            })
        })?
    }

    /// Sums over the second of three dimensions, in double precision as the interpreter's.
    pub(super) fn sum_rows(&self, x: &Tensor, keep: bool) -> Result<Tensor> {
        let (blocks, rows, width) = x.dims3()?;
        let mut out = vec![0f32; blocks * width];
        with_slice(x, |x| {
            let mut sums = vec![0f64; width];
            for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(width)) {
                sums.fill(0.0);
                for row in x.chunks(width) {
                    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
                }
                out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = *sum as f32);
            }
        })?;
        let dims = if keep { vec![blocks, 1, width] } else { vec![blocks, width] };
        Ok(Tensor::from_vec(out, dims, &Device::Cpu)?)
    }
}

/// Whether `b` has a value for each row of `a`.
pub(super) fn is_row_factor(a: &Tensor, b: &Tensor) -> bool {
    let (Some((last, a)), Some((&1, b))) = (a.dims().split_last(), b.dims().split_last()) else { return false };
    *last > 1 && a == b
}
