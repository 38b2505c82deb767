//! Exact products on x86-64 with AVX2, FMA and F16C.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take pointers, and functions compiled for an instruction set are called after it was found"
)]

mod exact;
mod reduce;

pub(super) use exact::{F32, TERNARY, U16, U32, exact_range, load, load_one, step};
