//! Segments: rows that belong together and stand one after another, such as the tokens of each text of a batch.

use super::host::{integers, tensor, values};
use super::layout::operand;
use super::limits::elements;
use super::reduce::reals;
use crate::error::Result;
use candle_core::Tensor;
use std::ops::Range;
use tallow_compiler::Step;
use tallow_ir::ops::Reduction;

/// The segments of rows that each have the number of theirs.
///
/// # Errors
/// Numbers that fall.
pub(crate) fn of_numbers(step: &Step, numbers: &Tensor) -> Result<Vec<Range<usize>>> {
    let numbers = values::<i64>(&integers(numbers)?)?;
    let mut segments: Vec<Range<usize>> = Vec::new();
    for (row, number) in numbers.iter().enumerate() {
        match segments.last_mut() {
            Some(last) if numbers[last.start] == *number => last.end = row + 1,
            Some(last) if numbers[last.start] > *number => {
                let before = numbers[last.start];
                return Err(operand(step, format!("segments falls from {before} to {number} at row {row}")));
            }
            _ => segments.push(row..row + 1),
        }
    }
    Ok(segments)
}

/// The segments of `rows` rows that begin at `starts`.
///
/// # Errors
/// Starts that do not begin with 0, do not ascend, or lie past the last row.
fn of_starts(step: &Step, starts: &Tensor, rows: usize) -> Result<Vec<Range<usize>>> {
    let starts = values::<i64>(&integers(starts)?)?;
    let ascend = starts.windows(2).all(|pair| pair[0] < pair[1]);
    let inside = starts.last().map_or(rows == 0, |&last| last < rows as i64);
    if !ascend || !inside || starts.first().is_some_and(|&first| first != 0) {
        let shown: Vec<i64> = starts.iter().copied().take(8).collect();
        return Err(operand(
            step,
            format!("starts is {shown:?}, expected 0 and then ascending numbers of the {rows} rows of x"),
        ));
    }
    let ends = starts.iter().skip(1).copied().chain([rows as i64]);
    Ok(starts.iter().zip(ends).map(|(&start, end)| start as usize..end as usize).collect())
}

/// The rows of each segment of `x` combined to one.
pub(super) fn reduce(step: &Step, x: &Tensor, starts: &Tensor, how: Reduction) -> Result<Tensor> {
    let rows = x.dim(0)?;
    let segments = of_starts(step, starts, rows)?;
    let mut dims = x.dims().to_vec();
    dims[0] = segments.len();
    let mut out = Vec::with_capacity(elements(step, &dims)?);
    let all = values::<f32>(x)?;
    let width = all.len().checked_div(rows).unwrap_or(0);
    let mut column = Vec::new();
    for segment in segments {
        for at in 0..width {
            column.clear();
            column.extend(segment.clone().map(|row| all[row * width + at]));
            out.push(reals(&column, how));
        }
    }
    tensor(out, &dims)
}
