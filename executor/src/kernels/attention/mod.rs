//! Grouped scaled dot-product attention of queries over a key and value cache.
//!
//! The definition, for each head and query row on its own, all in `f32`:
//!
//! - Keys are cut into chunks at multiples of 128 of their position in the cache. Of each chunk the
//!   visible keys count.
//! - A score is the product of the query with a key, summed in ascending order of elements by fused
//!   multiply-add; then scaled, soft-capped, masked.
//! - Within a chunk: the largest score, the exponentials of the distances to it, and their sum in
//!   sixteen lanes (a key's lane is its position modulo 16, lanes are halved at the end); the values
//!   times their exponentials, summed in ascending order of keys by fused multiply-add.
//! - Chunks are joined in ascending order: sums so far and of the chunk are scaled by the exponential
//!   of the distance of their largest score to the larger one, and added by fused multiply-add. A
//!   chunk that is masked as a whole is left out.
//! - The sum of values is multiplied by the reciprocal of the sum of exponentials; a row that sees no
//!   key gives zeros.
//!
//! So a row's result does not depend on the other rows of the call, on how many there are, on the
//! threads, or on the instruction set. Caches of half precision and of 8 bits count as the `f32` values
//! that they stand for.

mod block;
mod call;
mod chunk;
mod kv;
mod segments;
mod shared;

use super::disjoint::Disjoint;
use super::{KernelError, Team, check_len};
pub use call::{AttentionCall, AttentionScratch};
use half::f16;
pub use kv::{KvData, KvEncoding, KvLayout, KvRows, KvStore, KvWriter};
pub use segments::attend_segments;
pub use shared::AttentionShared;
use std::cell::RefCell;

/// The shape and rule of one attention operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads, a multiple of `kv_heads`; consecutive ones share a key and value head.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Query `i` of `S` sees the keys `0 ..= T − S + i` only.
    pub causal: bool,
    /// The number of keys that each query sees at most: the last ones up to its own position,
    /// itself included. Implies `causal`.
    pub window: Option<usize>,
    /// Query `i` of `S` sees keys at most this far from the key `T − S + i`, on either side. For a rule
    /// that is neither causal nor has a window.
    pub reach: Option<usize>,
    /// The factor on scores, usually `1/√head_dim`.
    pub scale: f32,
    /// `c` in `c · tanh(score / c)`, applied after the scale.
    pub softcap: Option<f32>,
}

/// An additive mask `[heads, S, T]`, or `[1, S, T]` for all heads, in `f32`. A value of -1e30 or less
/// hides the key as −∞ does; a row that sees no key gives zeros.
#[derive(Clone, Copy, Debug)]
pub struct AttentionMask<'a> {
    /// The values.
    pub values: &'a [f32],
    /// Whether there is one `[S, T]` per head.
    pub per_head: bool,
}

/// An element type of keys and values in plain rows.
pub trait KvElement: Copy + Sync + sealed::Sealed {
    /// Numbers of this type.
    fn data(from: &[Self]) -> KvData<'_>;
}

mod sealed {
    /// Keeps the set of element types closed.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
}

impl KvElement for f32 {
    fn data(from: &[Self]) -> KvData<'_> {
        KvData::F32(from)
    }
}

impl KvElement for f16 {
    fn data(from: &[Self]) -> KvData<'_> {
        KvData::F16(from)
    }
}

/// `out[S, heads·head_dim]` = attention of `q` `[s, heads·head_dim]` over the rows of `k` and `v`
/// `[T, kv_heads·head_dim]`.
///
/// # Errors
/// [`KernelError::Attribute`] for numbers of heads that do not divide; [`KernelError::Length`].
#[allow(clippy::too_many_arguments)]
pub fn attention<T: KvElement>(
    spec: &AttentionSpec,
    q: &[f32],
    s: usize,
    k: &[T],
    v: &[T],
    mask: Option<AttentionMask<'_>>,
    out: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    let width = spec.kv_heads.saturating_mul(spec.head_dim);
    let t = k.len().checked_div(width).unwrap_or(0);
    check_len("key of attention", k.len(), t.checked_mul(width))?;
    check_len("value of attention", v.len(), Some(k.len()))?;
    let [k, v] = [k, v].map(|x| KvRows { data: T::data(x), layout: KvLayout::Rows, rows: t, width });
    attend(spec, q, s, k, v, mask, out, team)
}

/// [`attention`] over keys and values in any form.
///
/// # Errors
/// As there.
#[allow(clippy::too_many_arguments)]
#[allow(unsafe_code, reason = "threads write disjoint heads of the output")]
pub fn attend(
    spec: &AttentionSpec,
    q: &[f32],
    s: usize,
    k: KvRows<'_>,
    v: KvRows<'_>,
    mask: Option<AttentionMask<'_>>,
    out: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    check_len("output of attention", out.len(), Some(q.len()))?;
    let work = q.len().saturating_mul(k.rows);
    let threads = if work < 16 * 1024 { 1 } else { team.threads() };
    let call = AttentionCall::new(spec, q, s, k, v, mask, threads)?;
    let mut shared = AttentionShared::default();
    if call.shares() {
        shared.reserve(spec, k.rows);
    }
    let out = Disjoint::new(out);
    let step = if threads == 1 { usize::MAX } else { 1 };
    team.run_chunks(call.items(), step, |items| {
        SCRATCH.with_borrow_mut(|scratch| {
            // SAFETY: each item is in one range, and the output is borrowed until all are done.
            unsafe { call.run_items(items, scratch, &shared, &out) }
        });
    });
    Ok(())
}

thread_local! {
    /// Working memory of this thread.
    static SCRATCH: RefCell<AttentionScratch> = RefCell::default();
}

#[cfg(test)]
mod forms;
#[cfg(test)]
mod tests;
