//! The inner loops of attention, over [`Lanes`]: products of a few rows with a block, and the
//! exponentials of a row of scores.

#![allow(unsafe_code, reason = "vector instructions need an instruction set and take pointers")]

use super::super::lanes::{Lanes, WIDTH};
use super::super::math::{exp_of, tanh_of};
use super::super::softmax::MASKED;
use half::f16;
use std::ops::Range;

/// Keys of a chunk.
pub(super) const CHUNK: usize = 128;
/// Vectors of a chunk.
pub(super) const VECTORS: usize = CHUNK / WIDTH;
/// Queries that are computed together.
pub(super) const ROWS: usize = 12;

/// An element of a block that is read as `f32`.
pub(super) trait Element: Copy {
    /// Whether a block of these is read from the cache, so that what comes [`Block::ahead`] is asked for
    /// meanwhile.
    const AHEAD: bool;
    /// Sixteen of them.
    ///
    /// # Safety
    /// As [`Lanes::load`].
    unsafe fn lanes<V: Lanes>(from: *const Self) -> V;
}

impl Element for f32 {
    const AHEAD: bool = false;

    #[inline(always)]
    unsafe fn lanes<V: Lanes>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(from) }
    }
}

impl Element for f16 {
    const AHEAD: bool = true;

    #[inline(always)]
    unsafe fn lanes<V: Lanes>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_f16(from) }
    }
}

/// A block of `[count, vectors · 16]` numbers: vector `n` of row `k` begins at
/// `start + k · row + n · panel`.
#[derive(Clone, Copy)]
pub(super) struct Block<E> {
    pub start: *const E,
    pub row: usize,
    pub panel: usize,
    /// How many elements later the next block begins.
    pub ahead: usize,
}

impl<E> Block<E> {
    /// The block from row `row` and vector `vector` on.
    #[inline(always)]
    fn at(self, row: usize, vector: usize) -> *const E {
        self.start.wrapping_add(row * self.row + vector * self.panel)
    }
}

/// `c[m][n] += Σ a[m][k] · b[k][n]` in ascending order of `k`, for `rows` rows of which element `k`
/// of row `m` stands at `a + m · M_STEP + k · K_STEP`, over the rows `keys` of the block and its first
/// `vectors` vectors. With `ADD` unset, `c` counts as zero before. Each element is a chain of fused
/// multiplications and additions of its own.
///
/// # Safety
/// The instruction set of `V`; all elements that this names are there.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn product<V: Lanes, E: Element, const M_STEP: usize, const K_STEP: usize, const ADD: bool>(
    rows: usize,
    a: *const f32,
    b: Block<E>,
    count: usize,
    vectors: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut m = 0;
    while m < rows {
        let a = a.wrapping_add(m * M_STEP);
        let c = c.wrapping_add(m * c_row);
        macro_rules! strip {
            ($m:literal, $n:literal) => {{
                // SAFETY: these rows are among all rows.
                unsafe { strip::<V, E, $m, $n, M_STEP, K_STEP, ADD>(a, b, count, vectors, c, c_row) };
                $m
            }};
        }
        let left = rows - m;
        // As many sums as registers hold beside the operands, and enough of them to hide latency.
        m += match (V::MANY, left) {
            (true, 12..) => strip!(12, 2),
            (true, 8..) => strip!(8, 2),
            (true, 7) => strip!(7, 2),
            (true, 6) => strip!(6, 4),
            (true, 5) => strip!(5, 4),
            (true, 4) => strip!(4, 4),
            (true, 3) => strip!(3, 4),
            (true, 2) => strip!(2, 4),
            (false, 6..) => strip!(6, 1),
            (false, 4..) => strip!(4, 1),
            (false, 2..) => strip!(2, 2),
            _ => strip!(1, 4),
        };
    }
}

/// [`product`] of `M` rows, `N` vectors at a time.
///
/// # Safety
/// As there.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn strip<
    V: Lanes,
    E: Element,
    const M: usize,
    const N: usize,
    const MS: usize,
    const KS: usize,
    const ADD: bool,
>(
    a: *const f32,
    b: Block<E>,
    count: usize,
    vectors: usize,
    c: *mut f32,
    c_row: usize,
) {
    let mut n = 0;
    while n + N <= vectors {
        // SAFETY: the caller's promise; these vectors are among all vectors.
        unsafe {
            tile::<V, E, M, N, MS, KS, ADD>(a, b.at(0, n), b.row, b.panel, b.ahead, count, c.add(n * WIDTH), c_row)
        };
        n += N;
    }
    while n < vectors {
        // SAFETY: as above.
        unsafe {
            tile::<V, E, M, 1, MS, KS, ADD>(a, b.at(0, n), b.row, b.panel, b.ahead, count, c.add(n * WIDTH), c_row)
        };
        n += 1;
    }
}

/// [`product`] of `M` rows and `N` vectors, whose sums stay in registers.
///
/// # Safety
/// As there.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile<
    V: Lanes,
    E: Element,
    const M: usize,
    const N: usize,
    const MS: usize,
    const KS: usize,
    const ADD: bool,
>(
    a: *const f32,
    b: *const E,
    row: usize,
    panel: usize,
    ahead: usize,
    count: usize,
    c: *mut f32,
    c_row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; M];
        if ADD {
            for (m, sums) in sums.iter_mut().enumerate() {
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(c.add(m * c_row + n * WIDTH));
                }
            }
        }
        for k in 0..count {
            let b = b.add(k * row);
            let mut vectors = [V::splat(0.0); N];
            for (n, vector) in vectors.iter_mut().enumerate() {
                *vector = E::lanes(b.add(n * panel));
                if E::AHEAD {
                    V::prefetch(b.wrapping_add(n * panel + ahead));
                }
            }
            for (m, sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*a.add(m * MS + k * KS));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = x.mul_add(vector, *sum);
                }
            }
        }
        for (m, sums) in sums.into_iter().enumerate() {
            for (n, sum) in sums.into_iter().enumerate() {
                sum.store(c.add(m * c_row + n * WIDTH));
            }
        }
    }
}

/// What happens to scores.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub scale: f32,
    pub cap: Option<f32>,
}

/// Applies a rule to the scores `keys` of a chunk, and hides what else is in their vectors; `mask` holds
/// what is added to them. Returns vectors of which the largest lane is the largest score.
///
/// # Safety
/// The instruction set of `V`, and a row of [`CHUNK`] numbers.
#[inline(always)]
pub(super) unsafe fn settle<V: Lanes>(row: *mut f32, keys: &Range<usize>, rule: Rule, mask: Option<&[f32]>) -> V {
    // SAFETY: the caller's promise; the vectors lie inside the row.
    unsafe {
        let (scale, none) = (V::splat(rule.scale), V::splat(f32::NEG_INFINITY));
        let mut top = none;
        for v in keys.start / WIDTH..keys.end.div_ceil(WIDTH) {
            let at = row.add(v * WIDTH);
            let mut x = V::load(at).mul(scale);
            if let Some(cap) = rule.cap {
                let cap = V::splat(cap);
                x = tanh_of(x.div(cap)).mul(cap);
            }
            let first = keys.start.clamp(v * WIDTH, (v + 1) * WIDTH) - v * WIDTH;
            let end = keys.end.clamp(v * WIDTH, (v + 1) * WIDTH) - v * WIDTH;
            if let Some(mask) = mask {
                let mut lanes = x.array();
                for (i, lane) in lanes.iter_mut().enumerate().take(end).skip(first) {
                    let mask = mask[v * WIDTH + i - keys.start];
                    *lane = if mask <= MASKED { f32::NEG_INFINITY } else { *lane + mask };
                }
                x = V::load(lanes.as_ptr());
            }
            if end - first < WIDTH {
                x = x.keep(first, end, none);
            }
            top = x.larger(top);
            x.store(at);
        }
        top
    }
}

/// Replaces the settled scores `keys` of a chunk by the exponentials of their distance to `top`, the
/// largest, and the rest of their vectors by zero. Returns the sum by lanes. All is zero where all keys
/// are masked.
///
/// # Safety
/// The instruction set of `V`, and a row of [`CHUNK`] numbers.
#[inline(always)]
pub(super) unsafe fn exponentials<V: Lanes>(row: *mut f32, keys: &Range<usize>, top: f32) -> V {
    let vectors = keys.start / WIDTH..keys.end.div_ceil(WIDTH);
    // SAFETY: the caller's promise; the vectors lie inside the row.
    unsafe {
        let mut sum = V::splat(0.0);
        if top <= MASKED && !keys.clone().any(|i| (*row.add(i)).is_nan()) {
            for v in vectors {
                sum.store(row.add(v * WIDTH));
            }
            return sum;
        }
        let distance = V::splat(top);
        for v in vectors {
            let at = row.add(v * WIDTH);
            let x = exp_of(V::load(at).sub(distance));
            sum = sum.add(x);
            x.store(at);
        }
        sum
    }
}

/// Joins what further keys give to what the keys before gave, of `rows` queries: the largest score,
/// the sum of exponentials (zero where there are none), and the sum of values, `vectors` vectors a query.
///
/// # Safety
/// The instruction set of `V`; all rows on both sides.
#[inline(always)]
pub(super) unsafe fn join<V: Lanes>(
    totals: &mut [(f32, f32)],
    sums: *mut f32,
    found: &[(f32, f32)],
    values: *const f32,
    vectors: usize,
) {
    let mut distances = [0.0; WIDTH];
    for ((distance, total), found) in distances.iter_mut().zip(&*totals).zip(found) {
        *distance = if total.0 >= found.0 { found.0 - total.0 } else { total.0 - found.0 };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let factors = exp_of(V::load(distances.as_ptr())).array();
        for (row, (total, found)) in totals.iter_mut().zip(found).enumerate() {
            if found.1 == 0.0 {
                continue;
            }
            let (to, from) = (sums.add(row * vectors * WIDTH), values.add(row * vectors * WIDTH));
            if total.1 == 0.0 {
                *total = *found;
                for v in 0..vectors {
                    V::load(from.add(v * WIDTH)).store(to.add(v * WIDTH));
                }
                continue;
            }
            // The factor of the side with the larger score is one.
            let ours = total.0 >= found.0;
            let (keep, take) = if ours { (1.0, factors[row]) } else { (factors[row], 1.0) };
            *total = (if ours { total.0 } else { found.0 }, found.1.mul_add(take, total.1 * keep));
            let (keep, take) = (V::splat(keep), V::splat(take));
            for v in 0..vectors {
                let to = to.add(v * WIDTH);
                V::load(from.add(v * WIDTH)).mul_add(take, V::load(to).mul(keep)).store(to);
            }
        }
    }
}
