//! Matrix products with weight rows: `y[M, N] = x[M, K] · Wᵀ`.
//!
//! Weights are read as they lie in the file. Two arithmetics, by encoding:
//!
//! - **block encodings** (`q8`, `q4`, K-quants): activations are quantised once to 16 bits
//!   per block of 32 ([`Activations`]), products within a block are exact integers, and blocks are
//!   summed in `f32` (`groups.rs` defines the order);
//! - **exact encodings** (`u32`, `u16`, ternary, plain `f32`): `f32` products, fused with the
//!   addition into eight lanes (`exact.rs` defines the order).
//!
//! Either way an output depends on its row of `x` and its row of `W` alone, bit for bit: not on
//! `M`, the threads, or the instruction set.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod block;
mod exact;
pub(super) mod groups;

pub use activations::Activations;
pub(crate) use exact::Rows as ExactRows;

use super::disjoint::Disjoint;
use super::packed::Target;
use super::{Isa, KernelError, Team, WeightRows, check_len};
use std::cell::RefCell;
use std::ops::Range;

/// `y[M, N] = x[M, K] · Wᵀ` with `x` `[m, k]` and `y` `[m, w.rows()]`, both row-major.
///
/// # Errors
/// [`KernelError::Length`] when a slice or the row length of `w` does not fit `m` and `k`.
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

/// As [`matmul`], with activations that are quantised already, such as those that several
/// projections share. `w` must be of a block encoding.
///
/// # Errors
/// [`KernelError::Length`] when `w` or `y` does not fit, [`KernelError::Attribute`] for an
/// encoding that is none of blocks.
pub fn matmul_quantized(x: &Activations, w: &WeightRows<'_>, y: &mut [f32], team: &Team) -> Result<(), KernelError> {
    quantized_on(Isa::detect(), x, w, y, team)
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
    if w.encoding().is_block() {
        thread_local! {
            /// The memory of the last activations of this thread, for the next ones.
            static LAST: RefCell<Activations> = RefCell::new(Activations::default());
        }
        let mut activations = LAST.take();
        activations.requantize(x, m, k, team)?;
        let done = quantized_on(isa, &activations, w, y, team);
        LAST.set(activations);
        return done;
    }
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

/// [`matmul_quantized`] on a given instruction set.
fn quantized_on(isa: Isa, x: &Activations, w: &WeightRows<'_>, y: &mut [f32], team: &Team) -> Result<(), KernelError> {
    if !w.encoding().is_block() {
        return Err(KernelError::Attribute {
            what: "the encoding of a product with quantised activations",
            value: w.encoding().name().to_owned(),
            expected: "one of q8, q4, q2k, q3k, q4k, q5k, q6k",
        });
    }
    check_len("row of the weight matrix", w.k(), Some(x.k()))?;
    check_len("output of a product", y.len(), x.m().checked_mul(w.rows()))?;
    let y = Disjoint::new(y);
    let step = chunk_rows(x.m(), w.rows(), w.row_bytes(), team);
    team.run_chunks(w.rows(), step, |range| match isa {
        #[cfg(target_arch = "x86_64")]
        isa if isa >= Isa::Avx2 => avx2::block_range(x, w, range, &y),
        _ => block::range(x, w, range, &y),
    });
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
const TILE: usize = 16;

/// Writes one output. `n` is the row of `W`, of `rows` in all.
#[allow(unsafe_code, reason = "threads write disjoint columns of the output")]
#[inline(always)]
fn put(y: &Disjoint<'_, f32>, rows: usize, m: usize, n: Range<usize>, values: &[f32]) {
    let start = m * rows + n.start;
    // SAFETY: each row of `W`, so each column of `y`, belongs to one range of the parallel loop,
    // and the part lives for this copy only.
    let part = unsafe { y.part(start..start + n.len()) };
    part.copy_from_slice(&values[..n.len()]);
}

#[cfg(test)]
mod tests;
