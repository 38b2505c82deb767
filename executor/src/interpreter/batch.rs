//! Products of stacks of matrices.

use super::host::{broadcast, spread, tensor, with_values};
use super::layout::operand;
use super::limits;
use crate::error::Result;
use candle_core::Tensor;
use tallow_compiler::Step;

/// `a · b` over the last two dimensions, or `a · bᵀ`; those before broadcast. Each row is summed in
/// one order, in double precision.
pub(super) fn batch_matmul(step: &Step, a: &Tensor, b: &Tensor, transpose_b: bool) -> Result<Tensor> {
    let b = if transpose_b { b.t()? } else { b.clone() };
    let ([a_batch @ .., m, k], [b_batch @ .., inner, n]) = (a.dims(), b.dims()) else {
        return Err(operand(step, format!("operands have shapes {:?} and {:?}, no matrices", a.dims(), b.dims())));
    };
    let (m, k, n) = (*m, *k, *n);
    if k != *inner {
        return Err(operand(step, format!("the inner sizes are {k} and {inner}, which must agree")));
    }
    let batch = broadcast(step, &[a_batch, b_batch])?;
    let dims = [&batch[..], &[m, n]].concat();
    let mut out = Vec::with_capacity(limits::elements(step, &dims)?);
    if out.capacity() == 0 {
        return tensor(out, &dims);
    }
    let (a_of, b_of) = (matrices(a_batch, &batch)?, matrices(b_batch, &batch)?);
    let mut row = vec![0f64; n];
    with_values(a, |a: &[f32]| {
        with_values(&b, |b: &[f32]| {
            for (p, q) in a_of.into_iter().zip(b_of) {
                let (p, q) = (p as usize * m, q as usize * k);
                for i in p..p + m {
                    row.fill(0.0);
                    for (j, &factor) in (q..).zip(&a[i * k..(i + 1) * k]) {
                        for (sum, &v) in row.iter_mut().zip(&b[j * n..(j + 1) * n]) {
                            *sum += f64::from(factor) * f64::from(v);
                        }
                    }
                    out.extend(row.iter().map(|&v| v as f32));
                }
            }
        })
    })??;
    tensor(out, &dims)
}

/// For each matrix of the broadcast stack `dims`, its number in a stack of the shape `own`. Numbers
/// are below the limit of elements, which a `u32` holds.
fn matrices(own: &[usize], dims: &[usize]) -> Result<Vec<u32>> {
    let count = own.iter().product::<usize>() as u32;
    spread(&tensor((0..count).collect(), own)?, dims)
}
