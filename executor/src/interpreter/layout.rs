//! Operations that move elements, and row lookup.

use crate::error::{ExecutorError, Result};
use candle_core::{DType, Tensor};
use tallow_compiler::Step;

/// Another shape for the same elements.
pub(super) fn reshape(step: &Step, x: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let known: usize = shape.iter().filter(|&&n| n >= 0).map(|&n| n as usize).product();
    let dims: Vec<usize> =
        shape.iter().map(|&n| if n < 0 { x.elem_count() / known.max(1) } else { n as usize }).collect();
    if dims.iter().product::<usize>() != x.elem_count() {
        return Err(operand(step, format!("{:?} has no shape {shape:?}", x.dims())));
    }
    Ok(x.contiguous()?.reshape(dims)?)
}

/// Parts of given sizes.
pub(super) fn split(x: &Tensor, axis: usize, sizes: &[u32]) -> Result<Vec<Tensor>> {
    let mut at = 0;
    sizes
        .iter()
        .map(|&n| {
            let part = part(x, axis, at, n as usize)?;
            at += n as usize;
            Ok(part)
        })
        .collect()
}

/// `len` elements from `start` on along `axis`, copied. Candle cannot copy a part without elements
/// that begins at the end.
fn part(x: &Tensor, axis: usize, start: usize, len: usize) -> Result<Tensor> {
    let part = x.narrow(axis, start, len)?;
    match part.elem_count() {
        0 => Ok(Tensor::zeros(part.shape(), part.dtype(), part.device())?),
        _ => Ok(part.contiguous()?),
    }
}

/// Operands one after another along `axis`.
pub(super) fn concat(step: &Step, x: &[Tensor], axis: usize) -> Result<Tensor> {
    let mut dims = x.first().map_or(Vec::new(), |t| t.dims().to_vec());
    if let Some(size) = dims.get_mut(axis) {
        *size = x.iter().map(|t| t.dims().get(axis).copied().unwrap_or(0)).sum();
    }
    super::limits::product(step, &dims)?;
    Ok(Tensor::cat(x, axis)?)
}

/// Equal parts.
pub(super) fn chunk(x: &Tensor, axis: usize, chunks: usize) -> Result<Vec<Tensor>> {
    let size = (x.dim(axis)? / chunks.max(1)) as u32;
    split(x, axis, &vec![size; chunks])
}

/// `start..end` along `axis`, with the bounds of the run-time size.
pub(super) fn slice(step: &Step, x: &Tensor, axis: usize, start: i64, end: i64) -> Result<Tensor> {
    let size = x.dim(axis)? as i64;
    let bound = |n: i64| match n {
        i64::MAX => size,
        n if n < 0 => n + size,
        n => n,
    };
    let (from, to) = (bound(start), bound(end));
    if !(0 <= from && from <= to && to <= size) {
        return Err(operand(step, format!("{start}..{end} lies outside dimension {axis} of {:?}", x.dims())));
    }
    part(x, axis, from as usize, (to - from) as usize)
}

/// Rows of `table` by id. Float ids must be whole.
pub(super) fn token_embed(step: &Step, ids: &Tensor, table: &Tensor) -> Result<Tensor> {
    let rows = ids_of(step, ids, table.dim(0)?)?;
    let mut dims = ids.dims().to_vec();
    dims.push(table.dim(1)?);
    super::limits::elements(step, &dims)?;
    let index = Tensor::from_vec(rows, ids.elem_count(), table.device())?;
    Ok(table.index_select(&index, 0)?.reshape(dims)?)
}

/// Ids as row numbers: whole, not negative, inside a table of `limit` rows.
pub(crate) fn ids_of(step: &Step, ids: &Tensor, limit: usize) -> Result<Vec<u32>> {
    let check = |id: f64| -> Result<u32> {
        if id.fract() == 0.0 && id >= 0.0 && id < limit as f64 {
            return Ok(id as u32);
        }
        Err(operand(
            step,
            format!(
                "id {id} is no row of a table of {limit}; ids are whole numbers from 0 to {}",
                limit.saturating_sub(1)
            ),
        ))
    };
    let flat = ids.flatten_all()?;
    match ids.dtype() {
        DType::I64 => flat.to_vec1::<i64>()?.into_iter().map(|i| check(i as f64)).collect(),
        DType::U32 => flat.to_vec1::<u32>()?.into_iter().map(|i| check(f64::from(i))).collect(),
        _ => flat.to_dtype(DType::F32)?.to_vec1::<f32>()?.into_iter().map(|i| check(f64::from(i))).collect(),
    }
}

/// An error of this step's operands.
pub(crate) fn operand(step: &Step, cause: String) -> ExecutorError {
    ExecutorError::Operand { op: step.op.name(), place: step.name.clone(), cause }
}
