//! Products in `f32` with weights whose values are used as they are: `u32`, `u16`, ternary, and
//! computed `f32` matrices.
//!
//! With `v` the integer (or, for `f32`, the value) of a weight, element `i` goes to lane `i mod 8`,
//! in ascending order, as `lane = fma(v, x, lane)` with one rounding; the lanes are added pairwise
//! ([`add_lanes`]), then multiplied by the encoding's unit, a power of two, and by the row's
//! scale, if it has one. Every kernel for these encodings follows this to the bit.

use super::super::math::{LANES, add_lanes};
use super::super::packed::Target;
use super::super::{KernelError, WeightRows};
use std::ops::Range;
use tallow_format::Encoding;

/// The rows of a matrix with exact values.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    source: Source<'a>,
    rows: usize,
    k: usize,
}

/// Where the values are.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Computed values, row-major.
    F32(&'a [f32]),
    /// Encoded `u32`.
    U32(&'a WeightRows<'a>),
    /// Encoded `u16`.
    U16(&'a WeightRows<'a>),
    /// Encoded ternary.
    Ternary(&'a WeightRows<'a>),
}

impl<'a> Rows<'a> {
    /// The rows of an encoded matrix.
    pub(crate) fn of_weights(w: &'a WeightRows<'a>) -> Result<Self, KernelError> {
        let source = match w.encoding() {
            Encoding::U32 => Source::U32(w),
            Encoding::U16 => Source::U16(w),
            Encoding::Ternary => Source::Ternary(w),
            other => {
                return Err(KernelError::Attribute {
                    what: "the encoding of an exact product",
                    value: other.name().to_owned(),
                    expected: "one of u32, u16, ternary",
                });
            }
        };
        Ok(Self { source, rows: w.rows(), k: w.k() })
    }

    /// The rows of a computed matrix `[rows, k]`, whose length the caller has checked.
    pub(crate) fn of_f32(w: &'a [f32], rows: usize, k: usize) -> Self {
        Self { source: Source::F32(w), rows, k }
    }

    /// Where the values are.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn source(&self) -> Source<'a> {
        self.source
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Bytes per row.
    pub(super) fn row_bytes(&self) -> usize {
        match self.source {
            Source::F32(_) => self.k.saturating_mul(4),
            Source::U32(w) | Source::U16(w) | Source::Ternary(w) => w.row_bytes(),
        }
    }

    /// Multiplies the sum of row `n` by its unit and scale.
    #[inline(always)]
    pub(super) fn finish(&self, n: usize, sum: f32) -> f32 {
        match self.source {
            Source::F32(_) => sum,
            Source::U32(_) => sum * (1.0 / 65_536.0),
            Source::U16(_) => sum * (1.0 / 256.0),
            Source::Ternary(w) => sum * w.row_scale(n),
        }
    }

    /// The integers (or values) `start .. start + out.len()` of row `n`, `start` a multiple of 8.
    #[inline(always)]
    fn load(&self, n: usize, start: usize, out: &mut [f32]) {
        match self.source {
            Source::F32(w) => {
                let at = n * self.k + start;
                out.copy_from_slice(&w[at..at + out.len()]);
            }
            Source::U32(w) => {
                let raw = w.row(n)[start * 4..].as_chunks::<4>().0;
                for (out, raw) in out.iter_mut().zip(raw) {
                    *out = i32::from_le_bytes(*raw) as f32;
                }
            }
            Source::U16(w) => {
                let raw = w.row(n)[start * 2..].as_chunks::<2>().0;
                for (out, raw) in out.iter_mut().zip(raw) {
                    *out = i16::from_le_bytes(*raw).into();
                }
            }
            Source::Ternary(w) => {
                let raw = &w.row(n)[start / 4..];
                for (i, out) in out.iter_mut().enumerate() {
                    let code = raw[i / 4] >> (i % 4 * 2);
                    // The invalid code 11 reads as 0.
                    *out = (i32::from(code & 1) - i32::from(code >> 1 & 1)) as f32;
                }
            }
        }
    }
}

/// The outputs of the rows `range` for all rows of `x`.
pub(super) fn range(x: &[f32], w: &Rows<'_>, range: Range<usize>, mut target: Target<'_>) {
    thread_local! {
        /// Memory for a row of this thread.
        static ROW: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let mut row = ROW.take();
    row.resize(w.k, 0.0);
    for n in range {
        w.load(n, 0, &mut row);
        for (m, x) in x.chunks_exact(w.k).enumerate() {
            target.put(m, n, &mut [w.finish(n, dot(&row, x))]);
        }
    }
    ROW.set(row);
}

/// The sum of products in the order of this module.
fn dot(w: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (w_chunks, w_rest) = w.as_chunks::<LANES>();
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    for (w, x) in w_chunks.iter().zip(x_chunks) {
        for ((lane, &w), &x) in lanes.iter_mut().zip(w).zip(x) {
            *lane = w.mul_add(x, *lane);
        }
    }
    for ((lane, &w), &x) in lanes.iter_mut().zip(w_rest).zip(x_rest) {
        *lane = w.mul_add(x, *lane);
    }
    add_lanes(lanes)
}
