//! Limits on what one step may allocate, checked before it does.

use super::layout::operand;
use crate::error::Result;
use tallow_compiler::Step;

/// The most elements of a result: 1 GiB of `f32`. A graph is foreign input, and a few bytes of it
/// can ask for any size.
pub(crate) const MAX_ELEMENTS: usize = 1 << 28;

/// The most elements of a product with a matrix, which logits of long texts may reach.
const MAX_PRODUCT: usize = 1 << 31;

/// Refuses a product of these sizes that is too large.
///
/// # Errors
/// More than 2³¹ elements.
pub(crate) fn product(step: &Step, dims: &[usize]) -> Result<()> {
    match dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1))) {
        Some(n) if n <= MAX_PRODUCT => Ok(()),
        _ => Err(operand(step, format!("the product {dims:?} has more than {MAX_PRODUCT} elements"))),
    }
}

/// The number of elements of a result of these sizes. Empty dimensions count as 1 against the limit,
/// so that each size is bounded too.
///
/// # Errors
/// More than [`MAX_ELEMENTS`].
pub(crate) fn elements(step: &Step, dims: &[usize]) -> Result<usize> {
    elements_of(step, "the result", dims)
}

/// [`elements`], of `what`.
///
/// # Errors
/// More than [`MAX_ELEMENTS`].
pub(crate) fn elements_of(step: &Step, what: &str, dims: &[usize]) -> Result<usize> {
    let bound = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
    match bound {
        Some(n) if n <= MAX_ELEMENTS => Ok(if dims.contains(&0) { 0 } else { n }),
        _ => Err(operand(
            step,
            format!("{what} would have the shape {dims:?}, and at most {MAX_ELEMENTS} elements are possible"),
        )),
    }
}

/// `size · times + more`, checked.
pub(crate) fn grown(step: &Step, size: usize, times: usize, more: &[i64]) -> Result<usize> {
    let total = more
        .iter()
        .try_fold(size.checked_mul(times), |n, &m| Some(n.and_then(|n| n.checked_add(usize::try_from(m).ok()?))));
    total.flatten().ok_or_else(|| operand(step, format!("a dimension of {size} elements cannot grow so much")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::Op;

    #[test]
    fn sizes_are_bounded_even_beside_an_empty_dimension() {
        let step = super::super::host::testing::step(Op::Neg);
        assert_eq!(elements(&step, &[]).unwrap(), 1);
        assert_eq!(elements(&step, &[2, 3]).unwrap(), 6);
        assert_eq!(elements(&step, &[MAX_ELEMENTS]).unwrap(), MAX_ELEMENTS);
        assert_eq!(elements(&step, &[0, MAX_ELEMENTS]).unwrap(), 0);
        for dims in [&[MAX_ELEMENTS + 1][..], &[1 << 16, 1 << 16], &[usize::MAX, usize::MAX], &[0, usize::MAX]] {
            let error = elements(&step, dims).unwrap_err().to_string();
            assert!(error.contains("at most 268435456 elements"), "{error}");
        }
        assert_eq!(grown(&step, 5, 2, &[1, 3]).unwrap(), 14);
        assert!(grown(&step, usize::MAX, 2, &[]).is_err());
        assert!(grown(&step, 5, 1, &[i64::MAX, i64::MAX, i64::MAX]).is_err());
    }
}
