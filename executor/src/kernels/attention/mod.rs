//! Grouped scaled dot-product attention of queries over a key and value cache.
//!
//! For each head and query row, on its own and in one order: products of the query with keys
//! (eight lanes over the head dimension), scale, soft-cap, mask, softmax (eight lanes over the
//! keys, counted from the first visible one), sum of values in ascending order of keys, division
//! by the sum of exponentials. All in `f32` with fused multiply-add. So a row's result does not
//! depend on the other rows of the call or on the threads.

mod block;

use super::disjoint::Disjoint;
use super::math::tanh;
use super::softmax::{MASKED, exponentials, scale as multiply};
use super::{Isa, KernelError, Team, check_len};
use block::{KEYS, add_values, score_keys};
use half::f16;
use std::cell::RefCell;
use std::ops::Range;

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

/// An element type of cached keys and values.
pub trait KvElement: Copy + Sync + sealed::Sealed {
    /// The elements as `f32`: themselves, or converted into `room` of the same length.
    fn widen<'a>(from: &'a [Self], room: &'a mut [f32]) -> &'a [f32];
    /// Whether [`KvElement::widen`] uses the room.
    const NEEDS_ROOM: bool;
}

mod sealed {
    /// Keeps the set of element types closed.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
}

impl KvElement for f32 {
    const NEEDS_ROOM: bool = false;

    fn widen<'a>(from: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        from
    }
}

impl KvElement for f16 {
    const NEEDS_ROOM: bool = true;

    fn widen<'a>(from: &'a [Self], room: &'a mut [f32]) -> &'a [f32] {
        block::widen(Isa::detect(), from, room);
        room
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
    let call = Call::check(spec, q, s, k, v, mask, out.len())?;
    if call.width == 0 || s == 0 {
        return Ok(());
    }
    let group = spec.heads / spec.kv_heads;
    // A tile is several queries of the heads that share a key head, so that each key and value
    // is read once for all of them; with one token, less sharing but more parts for threads.
    let tile = if s == 1 { 4 } else { 16 };
    let tiles = (s * group).div_ceil(tile);
    let work = s.saturating_mul(call.t).saturating_mul(call.width);
    let step = if work < 16 * 1024 { usize::MAX } else { 1 };
    let out = Disjoint::new(out);
    team.run_chunks(spec.kv_heads * tiles, step, |range| {
        SCRATCH.with_borrow_mut(|scratch| {
            for item in range {
                let (kv_head, first) = (item / tiles, item % tiles * tile);
                let queries = first..(s * group).min(first + tile);
                call.tile(kv_head, group, queries, &out, scratch);
            }
        });
    });
    Ok(())
}

thread_local! {
    /// Working memory of this thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Working memory of one tile.
#[derive(Default)]
struct Scratch {
    /// Scores, then weights, one row per query of the tile.
    scores: Vec<f32>,
    /// [`KEYS`] keys or values, widened.
    room: Vec<f32>,
    /// The queries of the tile.
    queries: Vec<Query>,
}

/// One query of a tile.
#[derive(Clone)]
struct Query {
    row: usize,
    head: usize,
    keys: Range<usize>,
}

/// The operands of a call, checked.
struct Call<'a, T> {
    isa: Isa,
    spec: AttentionSpec,
    q: &'a [f32],
    s: usize,
    t: usize,
    k: &'a [T],
    v: &'a [T],
    mask: Option<AttentionMask<'a>>,
    /// Elements of a row of `q`.
    width: usize,
    /// Elements of a row of `k`.
    kv_width: usize,
}

impl<'a, T: KvElement> Call<'a, T> {
    /// Checks attributes and lengths.
    #[allow(clippy::too_many_arguments)]
    fn check(
        spec: &AttentionSpec,
        q: &'a [f32],
        s: usize,
        k: &'a [T],
        v: &'a [T],
        mask: Option<AttentionMask<'a>>,
        out: usize,
    ) -> Result<Self, KernelError> {
        if spec.kv_heads == 0 || !spec.heads.is_multiple_of(spec.kv_heads) {
            return Err(KernelError::Attribute {
                what: "the number of key and value heads",
                value: spec.kv_heads.to_string(),
                expected: "a divisor of the number of query heads",
            });
        }
        let width = spec.heads.saturating_mul(spec.head_dim);
        let kv_width = spec.kv_heads.saturating_mul(spec.head_dim);
        let t = k.len().checked_div(kv_width).unwrap_or(0);
        check_len("query of attention", q.len(), s.checked_mul(width))?;
        check_len("key of attention", k.len(), t.checked_mul(kv_width))?;
        check_len("value of attention", v.len(), Some(k.len()))?;
        check_len("output of attention", out, Some(q.len()))?;
        if let Some(mask) = &mask {
            let heads = if mask.per_head { spec.heads } else { 1 };
            let expected = s.checked_mul(t).and_then(|st| st.checked_mul(heads));
            check_len("mask of attention", mask.values.len(), expected)?;
        }
        Ok(Self { isa: Isa::detect(), spec: *spec, q, s, t, k, v, mask, width, kv_width })
    }

    /// The keys that query row `row` sees.
    fn visible(&self, row: usize) -> Range<usize> {
        if !self.spec.causal && self.spec.window.is_none() {
            return 0..self.t;
        }
        let end = (self.t + row + 1).saturating_sub(self.s).min(self.t);
        let start = match self.spec.window {
            Some(window) => (self.t + row + 1).saturating_sub(self.s).saturating_sub(window).min(end),
            None => 0,
        };
        start..end
    }

    /// The output of the queries `range`, numbered row by row, of one key head.
    #[allow(unsafe_code, reason = "threads write disjoint heads of the output")]
    fn tile(&self, kv_head: usize, group: usize, range: Range<usize>, out: &Disjoint<'_, f32>, scratch: &mut Scratch) {
        let dim = self.spec.head_dim;
        let Scratch { scores, room, queries } = scratch;
        queries.clear();
        queries.extend(range.map(|index| {
            let row = index / group;
            Query { row, head: kv_head * group + index % group, keys: self.visible(row) }
        }));
        let start = queries.iter().map(|q| q.keys.start).min().unwrap_or(0);
        let end = queries.iter().map(|q| q.keys.end).max().unwrap_or(0);
        // One more block, since scores are written by whole blocks.
        let stride = (end.saturating_sub(start)).next_multiple_of(KEYS) + KEYS;
        // Every score that is read has been written before, so old content may stay.
        scores.resize(scores.len().max(queries.len() * stride), 0.0);
        let room_len = if T::NEEDS_ROOM { KEYS * dim } else { 0 };
        room.resize(room.len().max(room_len), 0.0);

        for first in (start..end).step_by(KEYS) {
            let keys = first..end.min(first + KEYS);
            let (block, block_stride) = self.block(self.k, kv_head, keys.clone(), room);
            for (query, scores) in queries.iter().zip(scores.chunks_exact_mut(stride)) {
                if query.keys.start >= keys.end || query.keys.end <= keys.start {
                    continue;
                }
                let at = query.row * self.width + query.head * dim;
                let mut found = [0.0; KEYS];
                score_keys(self.isa, &self.q[at..at + dim], block, block_stride, keys.len(), &mut found);
                let own = keys.start.max(query.keys.start)..keys.end.min(query.keys.end);
                scores[own.start - query.keys.start..own.end - query.keys.start]
                    .copy_from_slice(&found[own.start - first..own.end - first]);
            }
        }
        for (query, scores) in queries.iter().zip(scores.chunks_exact_mut(stride)) {
            let at = query.row * self.width + query.head * dim;
            // SAFETY: every pair of row and head belongs to one tile only, and the part of the
            // output is not held past this statement.
            unsafe { out.part(at..at + dim) }.fill(0.0);
            let scores = &mut scores[..query.keys.len() + 1];
            let (scores, sum) = scores.split_at_mut(query.keys.len());
            self.finish_scores(query, scores);
            sum[0] = exponentials(scores);
        }
        for first in (start..end).step_by(KEYS) {
            let keys = first..end.min(first + KEYS);
            let (block, block_stride) = self.block(self.v, kv_head, keys.clone(), room);
            for (query, scores) in queries.iter().zip(scores.chunks_exact(stride)) {
                let own = keys.start.max(query.keys.start)..keys.end.min(query.keys.end);
                if own.is_empty() || scores[query.keys.len()] == 0.0 {
                    continue;
                }
                let at = query.row * self.width + query.head * dim;
                let weights = &scores[own.start - query.keys.start..own.end - query.keys.start];
                add_values(
                    self.isa,
                    weights,
                    &block[(own.start - first) * block_stride..],
                    block_stride,
                    // SAFETY: as above.
                    unsafe { out.part(at..at + dim) },
                );
            }
        }
        for (query, scores) in queries.iter().zip(scores.chunks_exact(stride)) {
            let sum = scores[query.keys.len()];
            let at = query.row * self.width + query.head * dim;
            if sum != 0.0 {
                // SAFETY: as above.
                multiply(unsafe { out.part(at..at + dim) }, 1.0 / sum);
            }
        }
    }

    /// The part of one head in a few rows of `k` or `v`, in `f32`, and the distance of its rows.
    fn block<'b>(
        &'b self,
        from: &'b [T],
        kv_head: usize,
        rows: Range<usize>,
        room: &'b mut [f32],
    ) -> (&'b [f32], usize) {
        let dim = self.spec.head_dim;
        let start = rows.start * self.kv_width + kv_head * dim;
        let end = (rows.end - 1) * self.kv_width + (kv_head + 1) * dim;
        let part = &from[start..end];
        if !T::NEEDS_ROOM {
            return (T::widen(part, room), self.kv_width);
        }
        for (row, room) in part.chunks(self.kv_width).zip(room.chunks_exact_mut(dim)) {
            T::widen(&row[..dim], room);
        }
        (&room[..rows.len() * dim], dim)
    }

    /// Scale, soft-cap and mask on the scores of one query.
    fn finish_scores(&self, query: &Query, scores: &mut [f32]) {
        multiply(scores, self.spec.scale);
        if let Some(cap) = self.spec.softcap {
            for score in &mut *scores {
                *score = cap * tanh(*score / cap);
            }
        }
        if let Some(mask) = self.mask {
            let head = if mask.per_head { query.head } else { 0 };
            let at = (head * self.s + query.row) * self.t;
            let row = &mask.values[at..at + self.t][query.keys.clone()];
            for (score, &mask) in scores.iter_mut().zip(row) {
                *score = if mask <= MASKED { f32::NEG_INFINITY } else { *score + mask };
            }
        }
    }
}

#[cfg(test)]
mod tests;
