//! Lookup by index, and numbers that follow from a size.

use super::host::{around, axis, by_type, integers, named, pick, shown, tensor, values, with_values};
use super::layout::operand;
use super::limits;
use crate::error::Result;
use candle_core::{DType, Tensor, WithDType};
use tallow_compiler::Step;
use tallow_ir::DType as IrType;
use tallow_ir::ops::Real;

/// Elements along a dimension, which the shape of `index` replaces.
pub(super) fn gather(step: &Step, x: &Tensor, index: &Tensor, a: i32) -> Result<Tensor> {
    fn typed<T: WithDType>(x: &Tensor, at: usize, from: &[usize]) -> Result<Tensor> {
        pick::<T>(x, at, from.len(), &|i| from[i])
    }
    let at = axis(step, x.rank(), a.into())?;
    let mut dims = x.dims().to_vec();
    dims.splice(at..=at, index.dims().iter().copied());
    limits::elements(step, &dims)?;
    let from = indices(step, index, at, x.dims()[at])?;
    Ok(by_type!(x, typed(x, at, &from))?.reshape(dims)?)
}

/// For each place of `index`, the element of `x` at that place but for one dimension, where the
/// index tells it.
pub(super) fn gather_elements(step: &Step, x: &Tensor, index: &Tensor, a: i32) -> Result<Tensor> {
    fn typed<T: WithDType>(x: &Tensor, places: &[usize], dims: &[usize]) -> Result<Tensor> {
        tensor(with_values(x, |all: &[T]| places.iter().map(|&i| all[i]).collect())?, dims)
    }
    let at = axis(step, x.rank(), a.into())?;
    let fits =
        x.rank() == index.rank() && x.dims().iter().zip(index.dims()).enumerate().all(|(i, (n, m))| i == at || m <= n);
    if !fits {
        return Err(operand(
            step,
            format!("index has shape {:?}, which beside dimension {at} exceeds that of x {:?}", index.dims(), x.dims()),
        ));
    }
    let mut places = indices(step, index, at, x.dims()[at])?;
    for (number, place) in places.iter_mut().enumerate() {
        // The coordinates of `number` in the shape of index, from the last, as a place of x.
        let (mut rest, mut stride, mut sum) = (number, 1, 0);
        for (i, (&n, &m)) in x.dims().iter().zip(index.dims()).enumerate().rev() {
            sum += stride * if i == at { *place } else { rest % m };
            rest /= m;
            stride *= n;
        }
        *place = sum;
    }
    by_type!(x, typed(x, &places, index.dims()))
}

/// Indices into `size` elements of dimension `at`: whole and inside.
fn indices(step: &Step, index: &Tensor, at: usize, size: usize) -> Result<Vec<usize>> {
    let outside = |value: String| {
        operand(step, format!("index {value} lies outside dimension {at} of x, which has {size} elements"))
    };
    match index.dtype() {
        DType::F32 => values::<f32>(index)?
            .into_iter()
            .map(|v| {
                if v.fract() == 0.0 && v >= 0.0 && f64::from(v) < size as f64 {
                    Ok(v as usize)
                } else {
                    Err(outside(shown(v)))
                }
            })
            .collect(),
        _ => values::<i64>(&integers(index)?)?
            .into_iter()
            .map(|v| usize::try_from(v).ok().filter(|&i| i < size).ok_or_else(|| outside(v.to_string())))
            .collect(),
    }
}

/// Elements in reverse order along some dimensions.
pub(super) fn flip(step: &Step, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    let mut x = x.clone();
    for (at, turned) in named(step, x.rank(), axes)?.into_iter().enumerate() {
        let (_, size, _) = if turned { around(x.dims(), at) } else { continue };
        let from = |i: usize| size - 1 - i;
        x = by_type!(x, pick(&x, at, size, &from))?;
    }
    Ok(x)
}

/// The size of a dimension.
pub(super) fn size(step: &Step, x: &Tensor, a: i32) -> Result<Tensor> {
    tensor(vec![x.dims()[axis(step, x.rank(), a.into())?] as i64], &[])
}

/// 0, 1, 2 … for each element of a dimension.
pub(super) fn iota(step: &Step, x: &Tensor, a: i32) -> Result<Tensor> {
    let size = x.dims()[axis(step, x.rank(), a.into())?];
    limits::elements(step, &[size])?;
    tensor((0..size as i64).collect(), &[size])
}

/// The values of the payload in their shape, or one value everywhere.
pub(super) fn constant(step: &Step, dtype: IrType, shape: &[i64], values: &[Real]) -> Result<Tensor> {
    let dims: Vec<usize> = shape.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
    let count = limits::elements(step, &dims)?;
    let at = |i: usize| values.get(if values.len() == 1 { 0 } else { i }).map_or(0.0, |v| v.get());
    let real = || tensor((0..count).map(at).collect::<Vec<f32>>(), &dims);
    match dtype {
        IrType::F16 => Ok(real()?.to_dtype(DType::F16)?),
        IrType::BF16 => Ok(real()?.to_dtype(DType::BF16)?),
        IrType::Bool | IrType::U8 => tensor((0..count).map(|i| at(i) as u8).collect::<Vec<u8>>(), &dims),
        _ if dtype.range().is_some() => tensor((0..count).map(|i| at(i) as i64).collect::<Vec<i64>>(), &dims),
        _ => real(),
    }
}
