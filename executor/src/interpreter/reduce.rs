//! Reductions, running sums and the largest values.

use super::host::{around, as_before, axis, integers, named, tensor, values};
use super::layout::operand;
use super::limits;
use crate::error::Result;
use candle_core::{DType, Tensor, WithDType};
use std::cmp::Ordering;
use tallow_compiler::Step;
use tallow_ir::ops::Reduction;

/// Elements along `axes` (none named: all) as one; the dimensions drop out, or become 1 if `keep`.
pub(super) fn reduce(step: &Step, x: &Tensor, how: Reduction, axes: &[i64], keep: bool) -> Result<Tensor> {
    let mut gone = named(step, x.rank(), axes)?;
    if axes.is_empty() {
        gone.fill(true);
    }
    let mut order: Vec<usize> = (0..x.rank()).filter(|&i| !gone[i]).collect();
    let left: Vec<usize> = order.iter().map(|&i| x.dims()[i]).collect();
    let rows = limits::elements(step, &left)?;
    order.extend((0..x.rank()).filter(|&i| gone[i]));
    let count: usize = order[left.len()..].iter().map(|&i| x.dims()[i]).product();
    if count == 0 && matches!(how, Reduction::Max | Reduction::Min) {
        return Err(operand(step, format!("x has shape {:?}: no elements have no largest or smallest", x.dims())));
    }
    let sorted = x.permute(order)?.contiguous()?;
    let dims = match keep {
        true => x.dims().iter().zip(&gone).map(|(&n, &gone)| if gone { 1 } else { n }).collect(),
        false => left,
    };
    if x.dtype() == DType::F32 {
        let all = values::<f32>(&sorted)?;
        tensor((0..rows).map(|r| reals(&all[r * count..(r + 1) * count], how)).collect::<Vec<f32>>(), &dims)
    } else {
        let all = values::<i64>(&integers(&sorted)?)?;
        let out: Option<Vec<i64>> = (0..rows).map(|r| wholes(&all[r * count..(r + 1) * count], how)).collect();
        as_before(step, tensor(out.ok_or_else(|| too_large(step))?, &dims)?, x)
    }
}

/// Real numbers combined to one.
pub(super) fn reals(row: &[f32], how: Reduction) -> f32 {
    // The comparison is false beside NaN, which therefore comes in and stays.
    let largest = |top: f32, &v: &f32| if top >= v || top.is_nan() { top } else { v };
    let smallest = |low: f32, &v: &f32| if low <= v || low.is_nan() { low } else { v };
    let sum = || row.iter().map(|&v| f64::from(v)).sum::<f64>();
    match how {
        // From 0, since the sum of no numbers is -0 in this language.
        Reduction::Sum => (0.0 + sum()) as f32,
        Reduction::Mean => (sum() / row.len() as f64) as f32,
        Reduction::Product => row.iter().map(|&v| f64::from(v)).product::<f64>() as f32,
        Reduction::Max => row.iter().fold(f32::NEG_INFINITY, largest),
        Reduction::Min => row.iter().fold(f32::INFINITY, smallest),
    }
}

/// `None` where 64 bits do not hold the result. The caller has refused rows without elements where
/// there is no result, and means.
fn wholes(row: &[i64], how: Reduction) -> Option<i64> {
    match how {
        // 2⁶³ elements would be needed to leave this type.
        Reduction::Sum | Reduction::Mean => i64::try_from(row.iter().map(|&v| i128::from(v)).sum::<i128>()).ok(),
        Reduction::Product if row.contains(&0) => Some(0),
        Reduction::Product => {
            // Magnitudes only grow; one bit more than the result has suffices on the way.
            let limit = 1i128 << 63;
            let product = row.iter().try_fold(1i128, |product, &v| {
                let next = product * i128::from(v);
                (-limit..=limit).contains(&next).then_some(next)
            });
            i64::try_from(product?).ok()
        }
        Reduction::Max => row.iter().copied().max(),
        Reduction::Min => row.iter().copied().min(),
    }
}

fn too_large(step: &Step) -> crate::ExecutorError {
    operand(step, "the result does not fit in 64 bits".into())
}

/// Sums of all elements up to each along a dimension.
pub(super) fn cumulative(step: &Step, x: &Tensor, a: i32) -> Result<Tensor> {
    let at = axis(step, x.rank(), a.into())?;
    let (_, size, after) = around(x.dims(), at);
    if x.dtype() == DType::F32 {
        let mut all = values::<f32>(x)?;
        for_each_lane(all.len(), size, after, |lane| {
            let mut sum = 0f64;
            for i in lane {
                sum += f64::from(all[i]);
                all[i] = sum as f32;
            }
            Some(())
        });
        tensor(all, x.dims())
    } else {
        let mut all = values::<i64>(&integers(x)?)?;
        for_each_lane(all.len(), size, after, |lane| {
            let mut sum = 0i64;
            for i in lane {
                sum = sum.checked_add(all[i])?;
                all[i] = sum;
            }
            Some(())
        })
        .ok_or_else(|| too_large(step))?;
        as_before(step, tensor(all, x.dims())?, x)
    }
}

/// Calls `f` with the places of each line of elements along a dimension, of `size` elements with
/// `after` elements of inner dimensions between them. Stops at the first `None`.
fn for_each_lane(
    total: usize,
    size: usize,
    after: usize,
    mut f: impl FnMut(std::iter::StepBy<std::ops::Range<usize>>) -> Option<()>,
) -> Option<()> {
    if total == 0 {
        return Some(());
    }
    for start in (0..total).step_by(size * after) {
        for inner in 0..after {
            f((start + inner..start + size * after).step_by(after))?;
        }
    }
    Some(())
}

/// The `k` largest along a dimension, largest first, with their places; ties by place, NaN above
/// all numbers.
pub(super) fn top_k(step: &Step, x: &Tensor, a: i32, k: u32) -> Result<Vec<Tensor>> {
    let at = axis(step, x.rank(), a.into())?;
    let (size, k) = (x.dims()[at], k as usize);
    if k > size {
        return Err(operand(step, format!("k is {k}, and dimension {at} of x {:?} has {size} elements", x.dims())));
    }
    if x.dtype() == DType::F32 {
        // Equal only if both are NaN or neither is above the other.
        top(x, at, k, |a: f32, b| b.partial_cmp(&a).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan())))
    } else {
        let mut results = top(&integers(x)?, at, k, |a: i64, b| b.cmp(&a))?;
        results[0] = as_before(step, results[0].clone(), x)?;
        Ok(results)
    }
}

fn top<T: WithDType>(x: &Tensor, at: usize, k: usize, order: impl Fn(T, T) -> Ordering) -> Result<Vec<Tensor>> {
    let (_, size, after) = around(x.dims(), at);
    let all = values::<T>(x)?;
    let mut dims = x.dims().to_vec();
    dims[at] = k;
    let wanted = all.len() / size.max(1) * k;
    let (mut top, mut places) = (vec![T::zero(); wanted], vec![0i64; wanted]);
    let mut lane_number = 0;
    for_each_lane(all.len(), size, after, |lane| {
        let mut ranked: Vec<(T, i64)> = lane.map(|i| all[i]).zip(0..).collect();
        ranked.sort_by(|a, b| order(a.0, b.0));
        let start = lane_number / after * k * after + lane_number % after;
        for (j, (value, place)) in ranked.into_iter().take(k).enumerate() {
            (top[start + j * after], places[start + j * after]) = (value, place);
        }
        lane_number += 1;
        Some(())
    });
    Ok(vec![tensor(top, &dims)?, tensor(places, &dims)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        let sum = |row: &[i64]| wholes(row, Reduction::Sum);
        let product = |row: &[i64]| wholes(row, Reduction::Product);
        assert_eq!(sum(&[i64::MAX, 1, -1]), Some(i64::MAX));
        assert_eq!(sum(&[i64::MAX, 1]), None);
        assert_eq!(product(&[1 << 62, 2, -1]), Some(i64::MIN));
        assert_eq!(product(&[1 << 62, 2]), None);
        assert_eq!(product(&[1 << 62, 1 << 62, 1 << 62, 0]), Some(0));
        assert_eq!((sum(&[]), product(&[])), (Some(0), Some(1)));
    }

    #[test]
    fn not_a_number_stays() {
        assert!(reals(&[1.0, f32::NAN, 2.0], Reduction::Max).is_nan());
        assert!(reals(&[f32::NAN, 1.0], Reduction::Min).is_nan());
        assert!(reals(&[], Reduction::Mean).is_nan());
        assert_eq!(reals(&[], Reduction::Sum).to_bits(), 0);
        assert_eq!(reals(&[], Reduction::Product), 1.0);
    }
}
