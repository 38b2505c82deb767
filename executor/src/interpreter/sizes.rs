//! What run-time sizes may cost: checked before anything is allocated.

use super::layout::operand;
use crate::error::Result;
use candle_core::Tensor;
use tallow_compiler::Step;

/// The most values of one result of an operation that multiplies sizes: 8 GiB of `f32`.
const MAX_VALUES: usize = 1 << 31;

/// Refuses a tensor `what` of these sizes where it would hold too many values. A size of 0 counts
/// as 1, since strides are products of sizes.
///
/// # Errors
/// The sizes and the limit, by the step's name.
pub(crate) fn check_room(step: &Step, what: &str, dims: &[usize]) -> Result<()> {
    let total = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
    if total.is_some_and(|n| n <= MAX_VALUES) {
        return Ok(());
    }
    Err(operand(step, format!("{what} of {dims:?} values is too large, at most {MAX_VALUES} are possible")))
}

/// The shape that two shapes broadcast to, as NumPy does.
///
/// # Errors
/// Sizes that differ where neither is 1, and results that are too large.
pub(crate) fn broadcast(step: &Step, a: &Tensor, b: &Tensor) -> Result<Vec<usize>> {
    let rank = a.rank().max(b.rank());
    let at = |t: &Tensor, i: usize| (i + t.rank()).checked_sub(rank).map_or(1, |i| t.dims()[i]);
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        dims.push(match (at(a, i), at(b, i)) {
            (p, q) if p == q || q == 1 => p,
            (1, q) => q,
            (p, q) => {
                let cause = format!("shapes {:?} and {:?} do not broadcast: {p} against {q}", a.dims(), b.dims());
                return Err(operand(step, cause));
            }
        });
    }
    check_room(step, "a result", &dims)?;
    Ok(dims)
}
