//! Operations that change sizes or the number of dimensions.

use super::host::{axis, by_type, named, pick, tensor};
use super::layout::operand;
use super::limits::{elements, grown};
use crate::error::Result;
use candle_core::{Tensor, WithDType};
use tallow_compiler::Step;
use tallow_ir::ops::PadMode;

/// Elements put before and after each dimension.
pub(super) fn pad(step: &Step, x: &Tensor, mode: PadMode, pads: &[i64], value: f32) -> Result<Tensor> {
    let mut dims = Vec::with_capacity(x.rank());
    for (i, (&size, around)) in x.dims().iter().zip(pads.chunks_exact(2)).enumerate() {
        dims.push(grown(step, size, 1, around)?);
        let most = around.iter().copied().max().unwrap_or(0);
        let short = match mode {
            PadMode::Constant => false,
            PadMode::Reflect => most > 0 && most >= size as i64,
            PadMode::Replicate => most > 0 && size == 0,
        };
        if short {
            return Err(operand(
                step,
                format!(
                    "pads has {most} for dimension {i} of x {:?}, which has too few elements for this mode",
                    x.dims()
                ),
            ));
        }
    }
    elements(step, &dims)?;
    let mut x = x.clone();
    for (at, (around, wanted)) in pads.chunks_exact(2).zip(dims).enumerate() {
        let (size, before) = (x.dims()[at], around[0] as usize);
        if wanted == size {
            continue;
        }
        x = match mode {
            PadMode::Constant => by_type!(x, filled(&x, at, before, wanted - size - before, value))?,
            PadMode::Reflect => {
                // Counted from the first element, places before it mirror at it, those past the last at that.
                let from = |i: usize| match i.abs_diff(before) {
                    d if d < size || i < before => d,
                    d => 2 * (size - 1) - d,
                };
                by_type!(x, pick(&x, at, wanted, &from))?
            }
            PadMode::Replicate => {
                let from = |i: usize| i.saturating_sub(before).min(size - 1);
                by_type!(x, pick(&x, at, wanted, &from))?
            }
        };
    }
    Ok(x)
}

/// `value` before and after the elements of one dimension. The verifier has checked that the
/// element type holds it.
fn filled<T: WithDType>(x: &Tensor, at: usize, before: usize, after: usize, value: f32) -> Result<Tensor> {
    let block = |size: usize| -> Result<Tensor> {
        let mut dims = x.dims().to_vec();
        dims[at] = size;
        tensor(vec![T::from_f64(f64::from(value)); dims.iter().product()], &dims)
    };
    Ok(Tensor::cat(&[block(before)?, x.contiguous()?, block(after)?], at)?)
}

/// Dimensions of size 1 repeated; new ones lead.
pub(super) fn expand(step: &Step, x: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let new = shape.len().saturating_sub(x.rank());
    let mut dims = Vec::with_capacity(shape.len());
    for (i, &n) in shape.iter().enumerate() {
        let old = i.checked_sub(new).map(|i| x.dims()[i]);
        match (usize::try_from(n), old) {
            (Err(_), Some(old)) => dims.push(old),
            (Ok(n), None) => dims.push(n),
            (Ok(n), Some(old)) if old == 1 || old == n => dims.push(n),
            _ => return Err(operand(step, format!("x has shape {:?}, which does not expand to {shape:?}", x.dims()))),
        }
    }
    elements(step, &dims)?;
    Ok(x.broadcast_as(dims)?.contiguous()?)
}

/// Dimensions `start` to `end` as one.
pub(super) fn flatten(step: &Step, x: &Tensor, start: i32, end: i32) -> Result<Tensor> {
    if x.rank() == 0 {
        return Ok(x.reshape(1)?);
    }
    let (from, to) = (axis(step, x.rank(), start.into())?, axis(step, x.rank(), end.into())?);
    let mut dims = x.dims().to_vec();
    let product = product(step, x.dims().get(from..=to).unwrap_or_default())?;
    dims.splice(from..=to.max(from), [product]);
    Ok(x.contiguous()?.reshape(dims)?)
}

/// One dimension as several; -1 stands for what the others leave.
pub(super) fn unflatten(step: &Step, x: &Tensor, a: i32, sizes: &[i64]) -> Result<Tensor> {
    let at = axis(step, x.rank(), a.into())?;
    let whole = x.dims()[at];
    let known: Vec<usize> = sizes.iter().filter_map(|&n| usize::try_from(n).ok()).collect();
    let rest = whole / product(step, &known)?.max(1);
    let parts: Vec<usize> = sizes.iter().map(|&n| usize::try_from(n).unwrap_or(rest)).collect();
    if product(step, &parts)? != whole {
        return Err(operand(step, format!("dimension {at} of x {:?} has not the sizes {sizes:?}", x.dims())));
    }
    let mut dims = x.dims().to_vec();
    dims.splice(at..=at, parts);
    Ok(x.contiguous()?.reshape(dims)?)
}

/// The product of sizes, checked.
fn product(step: &Step, sizes: &[usize]) -> Result<usize> {
    sizes.iter().try_fold(1, |all, &n| grown(step, all, n, &[]))
}

/// Without some dimensions, which are 1.
pub(super) fn squeeze(step: &Step, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    let gone = named(step, x.rank(), axes)?;
    if let Some(i) = (0..x.rank()).find(|&i| gone[i] && x.dims()[i] != 1) {
        return Err(operand(step, format!("dimension {i} of x {:?} is not 1 and cannot drop out", x.dims())));
    }
    let dims: Vec<usize> = x.dims().iter().zip(gone).filter(|(_, gone)| !gone).map(|(&n, _)| n).collect();
    Ok(x.contiguous()?.reshape(dims)?)
}

/// With new dimensions of size 1 at places of the result.
pub(super) fn unsqueeze(step: &Step, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    let mut own = x.dims().iter().copied();
    let dims: Vec<usize> = named(step, x.rank() + axes.len(), axes)?
        .into_iter()
        .map(|new| if new { 1 } else { own.next().unwrap_or(1) })
        .collect();
    Ok(x.contiguous()?.reshape(dims)?)
}

/// The whole repeated in each dimension.
pub(super) fn tile(step: &Step, x: &Tensor, repeats: &[u32]) -> Result<Tensor> {
    let dims: Vec<usize> =
        x.dims().iter().zip(repeats).map(|(&n, &times)| grown(step, n, times as usize, &[])).collect::<Result<_>>()?;
    elements(step, &dims)?;
    let mut x = x.clone();
    for (at, wanted) in dims.into_iter().enumerate() {
        let size = x.dims()[at];
        if size != wanted {
            let from = |i: usize| i % size;
            x = by_type!(x, pick(&x, at, wanted, &from))?;
        }
    }
    Ok(x)
}

/// Each element along a dimension repeated in a row.
pub(super) fn repeat_each(step: &Step, x: &Tensor, a: i32, times: u32) -> Result<Tensor> {
    let at = axis(step, x.rank(), a.into())?;
    let mut dims = x.dims().to_vec();
    dims[at] = grown(step, dims[at], times as usize, &[])?;
    elements(step, &dims)?;
    let from = |i: usize| i / times as usize;
    by_type!(x, pick(x, at, dims[at], &from))
}
