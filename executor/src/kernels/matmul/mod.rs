//! Matrix products with weight rows: `y[M, N] = x[M, K] · Wᵀ`.
//!
//! Weights of exact encodings (`u32`, `u16`, ternary) and plain `f32` are read as they lie: `f32` products, fused with
//! the addition into eight lanes (`exact.rs` defines the order). An output depends on its row of `x` and its row of `W`
//! alone, bit for bit: not on `M`, the threads, or the instruction set. Block encodings are packed first: see
//! [`packed`](super::packed).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exact;

pub(crate) use exact::Rows as ExactRows;

use super::disjoint::Disjoint;
use super::packed::Target;
use super::{Isa, KernelError, Team, WeightRows, check_len};
use std::ops::Range;

/// `y[M, N] = x[M, K] · Wᵀ` with `x` `[m, k]` and `y` `[m, w.rows()]`, both row-major.
///
/// # Errors
/// [`KernelError::Length`] when a slice or the row length of `w` does not fit `m` and `k`, [`KernelError::Attribute`] for a
/// block encoding.
pub fn matmul(
    x: &[f32],
    m: usize,
    k: usize,
    w: &WeightRows<'_>,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    matmul_on(Isa::detect(), x, m, k, w, y, team)
}

/// `y[M, N] = x[M, K] · Wᵀ` with a computed `w` `[n, k]`.
///
/// # Errors
/// [`KernelError::Length`].
pub fn matmul_f32(
    x: &[f32],
    m: usize,
    k: usize,
    w: &[f32],
    n: usize,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    f32_on(Isa::detect(), x, m, k, w, n, y, team)
}

/// [`matmul`] on a given instruction set, which the machine must have.
fn matmul_on(
    isa: Isa,
    x: &[f32],
    m: usize,
    k: usize,
    w: &WeightRows<'_>,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    check_len("row of the weight matrix", w.k(), Some(k))?;
    check_len("input of a product", x.len(), m.checked_mul(k))?;
    check_len("output of a product", y.len(), m.checked_mul(w.rows()))?;
    let rows = exact::Rows::of_weights(w)?;
    exact_on(isa, x, k, &rows, y, team);
    Ok(())
}

/// [`matmul_f32`] on a given instruction set.
#[allow(clippy::too_many_arguments)]
fn f32_on(
    isa: Isa,
    x: &[f32],
    m: usize,
    k: usize,
    w: &[f32],
    n: usize,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    check_len("input of a product", x.len(), m.checked_mul(k))?;
    check_len("matrix of a product", w.len(), n.checked_mul(k))?;
    check_len("output of a product", y.len(), m.checked_mul(n))?;
    exact_on(isa, x, k, &exact::Rows::of_f32(w, n, k), y, team);
    Ok(())
}

/// The exact products of all rows.
fn exact_on(isa: Isa, x: &[f32], k: usize, rows: &exact::Rows<'_>, y: &mut [f32], team: &Team) {
    let m = y.len().checked_div(rows.len()).unwrap_or(0);
    if k == 0 {
        y.fill(0.0);
        return;
    }
    let y = Disjoint::new(y);
    let step = chunk_rows(m, rows.len(), rows.row_bytes(), team);
    team.run_chunks(rows.len(), step, |range| part_on(isa, x, rows, range, Target::new(&y, rows.len(), 0)));
}

/// The outputs of some rows of a matrix of exact values, for all rows of `x`, written to `target`: the part of one
/// thread. Calls for different rows may run at once.
///
/// # Panics
/// When an output lies outside the target, or a row does not exist.
pub(crate) fn exact_part(x: &[f32], rows: &ExactRows<'_>, range: Range<usize>, target: Target<'_>) {
    assert!(range.end <= rows.len() && rows.k() > 0, "rows of the matrix");
    part_on(Isa::detect(), x, rows, range, target);
}

/// [`exact_part`] on a given instruction set.
fn part_on(isa: Isa, x: &[f32], rows: &ExactRows<'_>, range: Range<usize>, target: Target<'_>) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        isa if isa >= Isa::Avx512 && x.len() >= avx512::LEAST * rows.k() => avx512::exact_range(x, rows, range, target),
        #[cfg(target_arch = "x86_64")]
        isa if isa >= Isa::Avx2 => avx2::exact_range(x, rows, range, target),
        _ => exact::range(x, rows, range, target),
    }
}

/// Rows of `W` that one range of the parallel loop takes: a multiple of [`TILE`], a few ranges a
/// thread, and none so small that handing it out would show.
fn chunk_rows(m: usize, n: usize, row_bytes: usize, team: &Team) -> usize {
    const LEAST_BYTES: usize = 32 * 1024;
    let threads = team.threads();
    if threads == 1 {
        return n.max(1);
    }
    let work = row_bytes.saturating_mul(m.max(1)).max(1);
    let least = LEAST_BYTES.div_ceil(work);
    let share = n.div_ceil(threads * 4);
    share.max(least).max(1).next_multiple_of(TILE)
}

/// Rows of `W` that the widest kernel works on at once.
const TILE: usize = 64;

#[cfg(test)]
mod tests;
