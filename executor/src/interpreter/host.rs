//! What the kernels that index elements share: tensors as flat vectors, and their dimensions.

use super::layout::operand;
use super::limits;
use crate::error::Result;
use candle_core::{DType, Device, Storage, Tensor, WithDType};
use tallow_compiler::Step;

/// Calls a function that is generic in the element type with the one of `$x`: `f32`, `i64`, or `u8`
/// for truth values and bytes.
macro_rules! by_type {
    ($x:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $x.dtype() {
            candle_core::DType::F32 => $function::<f32>($($argument),*),
            candle_core::DType::I64 => $function::<i64>($($argument),*),
            candle_core::DType::U8 => $function::<u8>($($argument),*),
            other => Err(candle_core::Error::Msg(format!("no kernel for elements of type {other:?}")).into()),
        }
    };
}
pub(super) use by_type;

/// The elements in row-major order.
pub(super) fn values<T: WithDType>(x: &Tensor) -> Result<Vec<T>> {
    Ok(x.flatten_all()?.to_vec1::<T>()?)
}

/// Calls `f` with the elements in row-major order, without a copy where they lie so.
pub(super) fn with_values<T: WithDType, R>(x: &Tensor, f: impl FnOnce(&[T]) -> R) -> Result<R> {
    let x = x.contiguous()?;
    let (storage, layout) = x.storage_and_layout();
    let (start, end) = layout.contiguous_offsets().unwrap_or((0, 0));
    match &*storage {
        Storage::Cpu(storage) => Ok(f(&storage.as_slice::<T>()?[start..end])),
        _ => Err(candle_core::Error::Msg("expected a tensor of the CPU".into()).into()),
    }
}

/// The elements of `x` repeated to `dims`, which it broadcasts to.
pub(super) fn spread<T: WithDType>(x: &Tensor, dims: &[usize]) -> Result<Vec<T>> {
    values(&x.broadcast_as(dims)?)
}

/// A tensor of elements in row-major order.
pub(super) fn tensor<T: WithDType>(values: Vec<T>, dims: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}

/// Integers as `i64`, in which all compute.
pub(super) fn integers(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(DType::I64)?)
}

/// Computed integers in the element type of the operand `x` that they come from.
///
/// # Errors
/// The operand holds bytes, and a result fits in none.
pub(super) fn as_before(step: &Step, result: Tensor, x: &Tensor) -> Result<Tensor> {
    if x.dtype() != DType::U8 {
        return Ok(result);
    }
    if let Some(v) = values::<i64>(&result)?.into_iter().find(|&v| u8::try_from(v).is_err()) {
        return Err(operand(step, format!("the result {v} does not fit in u8; cast x to i64")));
    }
    Ok(result.to_dtype(DType::U8)?)
}

/// A number for a message: whole ones to the last digit, which the shortest form of `f32` rounds.
pub(super) fn shown(v: f32) -> String {
    if v.fract() == 0.0 { format!("{v:.0}") } else { v.to_string() }
}

/// Position of a possibly negative dimension number among `rank`.
pub(super) fn axis(step: &Step, rank: usize, axis: i64) -> Result<usize> {
    let at = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    at.and_then(|at| usize::try_from(at).ok())
        .filter(|&at| at < rank)
        .ok_or_else(|| operand(step, format!("dimension {axis} does not exist among {rank}")))
}

/// Which of `rank` dimensions the list names.
pub(super) fn named(step: &Step, rank: usize, axes: &[i64]) -> Result<Vec<bool>> {
    let mut named = vec![false; rank];
    for &a in axes {
        named[axis(step, rank, a)?] = true;
    }
    Ok(named)
}

/// Sizes around one dimension: the product of those before it, its own, the product of those after.
pub(super) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

/// The shape that all shapes broadcast to as in NumPy, within the limit.
pub(super) fn broadcast(step: &Step, shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut dims = vec![1usize; rank];
    for shape in shapes {
        for (slot, &n) in dims.iter_mut().rev().zip(shape.iter().rev()) {
            if *slot == 1 {
                *slot = n;
            } else if n != 1 && n != *slot {
                return Err(operand(step, format!("shapes {shapes:?} do not broadcast: {slot} against {n}")));
            }
        }
    }
    limits::elements(step, &dims)?;
    Ok(dims)
}

/// The tensor whose element `i` along dimension `at` is element `from(i)` of `x`, with `size` of
/// them. The caller has checked the sizes of the result, and that `from` stays inside `x`.
pub(super) fn pick<T: WithDType>(x: &Tensor, at: usize, size: usize, from: &dyn Fn(usize) -> usize) -> Result<Tensor> {
    let (before, old, after) = around(x.dims(), at);
    let mut dims = x.dims().to_vec();
    dims[at] = size;
    let mut out = Vec::with_capacity(before * size * after);
    if before * after > 0 {
        with_values::<T, _>(x, |source| {
            for outer in 0..before {
                for i in 0..size {
                    let start = (outer * old + from(i)) * after;
                    out.extend_from_slice(&source[start..start + after]);
                }
            }
        })?;
    }
    tensor(out, &dims)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use tallow_ir::Op;

    /// A step that runs `op`.
    pub(in super::super) fn step(op: Op) -> Step {
        Step {
            op,
            node: tallow_ir::NodeId::default(),
            name: "y".into(),
            operands: vec![],
            results: vec![],
            types: vec![],
            frees: vec![],
            cache: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::Op;

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        let step = testing::step(Op::Neg);
        assert_eq!(broadcast(&step, &[&[3, 1], &[4], &[]]).unwrap(), [3, 4]);
        assert_eq!(broadcast(&step, &[&[0, 1], &[1, 4]]).unwrap(), [0, 4]);
        assert!(broadcast(&step, &[&[3], &[0]]).unwrap_err().to_string().contains("3 against 0"));
        let wide = [1 << 20, 1];
        assert!(broadcast(&step, &[&wide, &[1 << 20]]).unwrap_err().to_string().contains("at most"));
        assert_eq!(axis(&step, 3, -1).unwrap(), 2);
        assert!(axis(&step, 3, 3).is_err() && axis(&step, 3, i64::MIN).is_err() && axis(&step, 0, 0).is_err());
    }
}
