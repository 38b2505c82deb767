//! Products on x86-64 with AVX2, FMA and F16C.
//!
//! [`rows`] multiplies rows of weights with one of activations, straight from the stored
//! bytes, for few rows of activations; [`tile`] unpacks sixteen rows of weights once for many;
//! [`exact`] serves the encodings without blocks.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take pointers, and functions compiled for an instruction set are called after it was found"
)]

mod exact;
mod kquants;
mod packed;
mod reduce;
mod rows;
mod tile;
mod unpack;

pub(super) use exact::exact_range;

use super::super::disjoint::Disjoint;
use super::super::{Isa, WeightRows};
use super::activations::Activations;
use std::ops::Range;
use tallow_format::Encoding;

/// Rows of activations from which unpacking weights once for all of them pays.
const MANY: usize = 6;

/// The outputs of the rows `range` of `w` for all rows of `x`. `w` is of a block encoding with
/// `x.k()` values a row.
pub(super) fn block_range(x: &Activations, w: &WeightRows<'_>, range: Range<usize>, y: &Disjoint<'_, f32>) {
    assert!(Isa::detect() >= Isa::Avx2, "the dispatcher chose this path for a machine with AVX2");
    if x.m() >= MANY {
        // SAFETY: AVX2, FMA and F16C were found.
        unsafe { tile::range(x, w, range, y) };
        return;
    }
    // SAFETY: AVX2, FMA and F16C were found; the kernel is that of the encoding, and the
    // dispatcher compared the row lengths.
    unsafe {
        match w.encoding() {
            Encoding::Q8 => rows::range::<{ rows::Q8 }>(x, w, range, y),
            Encoding::Q4 => rows::range::<{ rows::Q4 }>(x, w, range, y),
            Encoding::Q4K => rows::range::<{ rows::Q4K }>(x, w, range, y),
            Encoding::Q5K => rows::range::<{ rows::Q5K }>(x, w, range, y),
            Encoding::Q6K => rows::range::<{ rows::Q6K }>(x, w, range, y),
            Encoding::Q2K => rows::range::<{ rows::Q2K }>(x, w, range, y),
            Encoding::Q3K => rows::range::<{ rows::Q3K }>(x, w, range, y),
            // No block encodings, which the dispatcher has checked for.
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
        }
    }
}
