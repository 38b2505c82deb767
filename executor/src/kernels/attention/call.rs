//! One attention operation, cut into parts that threads compute.
#![allow(unsafe_code, reason = "threads write disjoint parts, and inner loops take pointers")]

use super::super::lanes::{Lanes, Portable, WIDTH};
use super::super::{Disjoint, Isa, KernelError, check_len};
use super::block::{Block, CHUNK, ROWS, Rule, VECTORS, exponentials, join, product, settle};
use super::chunk::{Chunk, Pointers};
use super::kv::{Floats, KvRows};
use super::shared::{AttentionShared, Part};
use super::{AttentionMask, AttentionSpec};
use std::ops::Range;

/// Blocks of [`ROWS`] queries in a part at most.
const BLOCKS: usize = 8;

/// Working memory of one thread.
#[derive(Debug, Default)]
pub struct AttentionScratch {
    pub(super) chunk: Chunk,
    /// Queries: blocks of [`ROWS`], each value by value.
    queries: Floats,
    /// Scores, then weights, of one block of queries with one chunk.
    scores: Floats,
    /// What one chunk gives for a block of queries.
    partial: Floats,
    /// The sums of values so far, of all queries of the part.
    sums: Floats,
    /// The largest score and the sum of exponentials so far, of each query.
    totals: Vec<(f32, f32)>,
}

impl AttentionScratch {
    /// Makes room for any call with this specification; later calls allocate nothing.
    pub fn reserve(&mut self, spec: &AttentionSpec) {
        let (dim, padded) = (spec.head_dim, padded(spec.head_dim));
        self.chunk.reserve(dim);
        self.queries.hold(BLOCKS * ROWS * dim);
        self.scores.hold(ROWS * CHUNK);
        self.partial.hold(ROWS * padded);
        self.sums.hold(BLOCKS * ROWS * padded);
        self.totals.resize(self.totals.len().max(BLOCKS * ROWS), (0.0, 0.0));
    }
}

/// An additive mask, perhaps inside a larger one: a value for each query, `row` apart, of each head, `head` apart, and
/// each key, side by side.
#[derive(Clone, Copy)]
pub(super) struct Strided<'a> {
    pub values: &'a [f32],
    pub head: usize,
    pub row: usize,
}

/// Elements of a head as whole vectors.
pub(super) fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(WIDTH)
}

/// An attention operation whose operands have been checked.
///
/// Its work is [`AttentionCall::items`] items, which threads may do in any order, each once.
#[derive(Clone, Copy)]
pub struct AttentionCall<'a> {
    isa: Isa,
    spec: AttentionSpec,
    q: &'a [f32],
    s: usize,
    k: KvRows<'a>,
    v: KvRows<'a>,
    mask: Option<Strided<'a>>,
    /// Elements of a row of `q`.
    width: usize,
    /// Query heads of a key head.
    group: usize,
    /// Blocks of queries in an item.
    blocks: usize,
    /// Items of a key head.
    parts: usize,
    /// Whether an item is a chunk of keys for all queries of a key head, rather than some queries
    /// with all keys.
    by_keys: bool,
}

impl<'a> AttentionCall<'a> {
    /// Attention of `q` `[s, heads·head_dim]` over the rows of `k` and `v`, cut for `threads`
    /// threads. The result is the same for any number.
    ///
    /// # Errors
    /// [`KernelError::Attribute`] for numbers of heads that do not divide; [`KernelError::Length`].
    pub fn new(
        spec: &AttentionSpec,
        q: &'a [f32],
        s: usize,
        k: KvRows<'a>,
        v: KvRows<'a>,
        mask: Option<AttentionMask<'a>>,
        threads: usize,
    ) -> Result<Self, KernelError> {
        if spec.kv_heads == 0 || !spec.heads.is_multiple_of(spec.kv_heads) {
            return Err(KernelError::Attribute {
                what: "the number of key and value heads",
                value: spec.kv_heads.to_string(),
                expected: "a divisor of the number of query heads",
            });
        }
        let width = spec.heads.saturating_mul(spec.head_dim);
        let kv_width = spec.kv_heads.checked_mul(spec.head_dim);
        check_len("query of attention", q.len(), s.checked_mul(width))?;
        check_len("row of keys of attention", k.width, kv_width)?;
        check_len("row of values of attention", v.width, kv_width)?;
        check_len("rows of values of attention", v.rows, Some(k.rows))?;
        for (rows, numbers, scales) in [
            (&k, "keys of attention", "scales of the keys of attention"),
            (&v, "values of attention", "scales of the values of attention"),
        ] {
            let (held, held_scales) = rows.lengths();
            let (needs, needs_scales) = rows.needs().unwrap_or((usize::MAX, usize::MAX));
            // Storage may end with room for more rows.
            check_len(numbers, held.min(needs), Some(needs))?;
            check_len(scales, held_scales.min(needs_scales), Some(needs_scales))?;
        }
        if let Some(mask) = &mask {
            let heads = if mask.per_head { spec.heads } else { 1 };
            let expected = s.checked_mul(k.rows).and_then(|st| st.checked_mul(heads));
            check_len("mask of attention", mask.values.len(), expected)?;
        }
        let group = spec.heads / spec.kv_heads;
        let queries = s * group;
        let chunks = k.rows.div_ceil(CHUNK);
        let threads = threads.max(1);
        // Few queries with many keys are cut along the keys, unless the heads share out evenly.
        let by_keys = threads > 1
            && chunks > 1
            && (1..=ROWS).contains(&queries)
            && !spec.kv_heads.is_multiple_of(threads)
            && spec.kv_heads < 4 * threads;
        // Parts are large, so that each key is widened for many queries, unless there are few.
        let all = queries.div_ceil(ROWS);
        let blocks = (all * spec.kv_heads / (4 * threads)).clamp(1, BLOCKS);
        let parts = if by_keys { chunks } else { all.div_ceil(blocks) };
        let parts = if width == 0 { 0 } else { parts };
        let mask = mask.map(|mask| Strided {
            values: mask.values,
            head: if mask.per_head { s * k.rows } else { 0 },
            row: k.rows,
        });
        Ok(Self { isa: Isa::detect(), spec: *spec, q, s, k, v, mask, width, group, blocks, parts, by_keys })
    }

    /// The call with a mask that is part of a larger one.
    pub(super) fn masked(mut self, mask: Strided<'a>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// The call on another instruction set, for tests.
    #[cfg(test)]
    pub(super) fn on(mut self, isa: Isa) -> Self {
        self.isa = isa;
        self
    }

    /// Whether items leave parts of a result for each other, for which an [`AttentionShared`] needs
    /// room.
    pub fn shares(&self) -> bool {
        self.by_keys
    }

    /// Items of work.
    pub fn items(&self) -> usize {
        self.spec.kv_heads * self.parts
    }

    /// Does some of the items, writing their parts of `out` `[s, heads·head_dim]`. Where two threads
    /// work on a call, both must be given the same `shared`, which no other call uses meanwhile.
    ///
    /// # Safety
    /// No item is done twice, and no one else uses `out` until all are done.
    ///
    /// # Panics
    /// Where `out` is shorter, or `items` reaches past [`AttentionCall::items`].
    pub unsafe fn run_items(
        &self,
        items: Range<usize>,
        scratch: &mut AttentionScratch,
        shared: &AttentionShared,
        out: &Disjoint<'_, f32>,
    ) {
        assert!(items.end <= self.items() && out.len() >= self.q.len(), "items of the call");
        scratch.reserve(&self.spec);
        assert!(!self.by_keys || shared.holds(self.spec.kv_heads, self.parts, ROWS, padded(self.spec.head_dim)));
        for item in items {
            // SAFETY: the features were found; each item is done once.
            match self.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Amx | Isa::Avx512 => unsafe { self.item_avx512(item, scratch, shared, out) },
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { self.item_avx2(item, scratch, shared, out) },
                _ => unsafe { self.item::<Portable>(item, scratch, shared, out) },
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,f16c")]
    unsafe fn item_avx512(
        &self,
        item: usize,
        scratch: &mut AttentionScratch,
        shared: &AttentionShared,
        out: &Disjoint<'_, f32>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.item::<super::super::lanes::Avx512>(item, scratch, shared, out) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn item_avx2(
        &self,
        item: usize,
        scratch: &mut AttentionScratch,
        shared: &AttentionShared,
        out: &Disjoint<'_, f32>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.item::<super::super::lanes::Avx2>(item, scratch, shared, out) }
    }

    /// Does one item.
    ///
    /// # Safety
    /// As [`AttentionCall::run_items`]; the instruction set of `V`.
    #[inline(always)]
    unsafe fn item<V: Lanes>(
        &self,
        item: usize,
        scratch: &mut AttentionScratch,
        shared: &AttentionShared,
        out: &Disjoint<'_, f32>,
    ) {
        let (kv_head, part) = (item / self.parts, item % self.parts);
        let all = self.s * self.group;
        let padded = padded(self.spec.head_dim);
        if !self.by_keys {
            // From both ends by turns, since later queries see more: so any contiguous share of the
            // items is about as much work.
            let part = if part % 2 == 0 { part / 2 } else { self.parts - 1 - part / 2 };
            let first = part * self.blocks * ROWS;
            let queries = first..all.min(first + self.blocks * ROWS);
            let chunks = self.chunks(queries.clone());
            scratch.totals[..queries.len()].fill((0.0, 0.0));
            // SAFETY: the caller's promise.
            unsafe {
                self.pack(kv_head, queries.clone(), scratch);
                for chunk in chunks {
                    self.chunk::<V>(kv_head, queries.clone(), chunk, scratch, None);
                }
                self.finish::<V>(kv_head, queries, &scratch.sums, &scratch.totals, out);
            }
            return;
        }
        // SAFETY: the caller's promise; this item alone writes its part.
        unsafe {
            let own = shared.part(kv_head * self.parts + part, ROWS, padded);
            own.totals.fill((0.0, 0.0));
            if self.chunks(0..all).contains(&part) {
                self.pack(kv_head, 0..all, scratch);
                self.chunk::<V>(kv_head, 0..all, part, scratch, Some(own));
            }
        }
        if !shared.last(kv_head, self.parts) {
            return;
        }
        // All chunks are there now: they are joined as above.
        scratch.totals[..all].fill((0.0, 0.0));
        for part in 0..self.parts {
            // SAFETY: written before by whoever did the item, and by nobody since.
            unsafe {
                let from = shared.part(kv_head * self.parts + part, ROWS, padded);
                let sums = scratch.sums.as_mut_ptr();
                let totals = &mut scratch.totals[..all];
                join::<V>(totals, sums, &from.totals[..all], from.sums.as_ptr(), padded / WIDTH);
            }
        }
        // SAFETY: as above.
        unsafe { self.finish::<V>(kv_head, 0..all, &scratch.sums, &scratch.totals, out) };
    }

    /// The keys that query row `row` sees.
    fn visible(&self, row: usize) -> Range<usize> {
        let t = self.k.rows;
        if let Some(reach) = self.spec.reach {
            let place = (t + row).saturating_sub(self.s);
            let end = place.saturating_add(reach).saturating_add(1).min(t);
            return place.saturating_sub(reach).min(end)..end;
        }
        if !self.spec.causal && self.spec.window.is_none() {
            return 0..t;
        }
        let end = (t + row + 1).saturating_sub(self.s).min(t);
        let start = match self.spec.window {
            Some(window) => (t + row + 1).saturating_sub(self.s).saturating_sub(window).min(end),
            None => 0,
        };
        start..end
    }

    /// The chunks in which some of the queries see keys. Queries in order see ever later ones.
    fn chunks(&self, queries: Range<usize>) -> Range<usize> {
        let Some(last) = queries.end.checked_sub(1) else { return 0..0 };
        let start = self.visible(queries.start / self.group).start;
        let end = self.visible(last / self.group).end;
        start / CHUNK..end.div_ceil(CHUNK)
    }

    /// Where the elements of a query stand in `q` and in the result.
    fn place(&self, kv_head: usize, query: usize) -> Range<usize> {
        let head = kv_head * self.group + query % self.group;
        let at = query / self.group * self.width + head * self.spec.head_dim;
        at..at + self.spec.head_dim
    }

    /// Brings queries together.
    fn pack(&self, kv_head: usize, queries: Range<usize>, scratch: &mut AttentionScratch) {
        let dim = self.spec.head_dim;
        for (index, query) in queries.enumerate() {
            let block = &mut scratch.queries[index / ROWS * ROWS * dim..][..ROWS * dim];
            let lane = index % ROWS;
            for (places, &x) in block.as_chunks_mut::<ROWS>().0.iter_mut().zip(&self.q[self.place(kv_head, query)]) {
                places[lane] = x;
            }
        }
    }

    /// Adds what a chunk of keys gives to `queries`, at most [`ROWS`] of them with `own`, where the
    /// result of the chunk alone goes.
    ///
    /// # Safety
    /// The instruction set of `V`.
    #[inline(always)]
    unsafe fn chunk<V: Lanes>(
        &self,
        kv_head: usize,
        queries: Range<usize>,
        chunk: usize,
        scratch: &mut AttentionScratch,
        mut own: Option<Part<'_>>,
    ) {
        let (dim, padded) = (self.spec.head_dim, padded(self.spec.head_dim));
        let base = chunk * CHUNK;
        let end = self.k.rows.min(base + CHUNK);
        let seen = |query: usize| {
            let keys = self.visible(query / self.group);
            keys.start.clamp(base, end) - base..keys.end.clamp(base, end) - base
        };
        let union = |queries: Range<usize>| seen(queries.start).start..seen(queries.end - 1).end;
        let keys = union(queries.clone());
        // A lone block reads each key once, so there is nothing to gain by widening it first.
        let lone = queries.len() <= ROWS;
        // SAFETY: the caller's promise, here and below; all pointers are into scratch or the cache,
        // for as many rows and vectors as those hold.
        let (keys, values) = unsafe {
            (
                scratch.chunk.keys::<V>(&self.k, kv_head * dim, dim, base, keys.clone(), lone),
                scratch.chunk.values::<V>(&self.v, kv_head * dim, dim, base, keys, lone),
            )
        };
        let AttentionScratch { queries: packed, scores, partial, sums, totals, .. } = scratch;
        for block in queries.clone().step_by(ROWS) {
            let rows = ROWS.min(queries.end - block);
            let index = block - queries.start;
            let all = union(block..block + rows);
            if all.is_empty() {
                continue;
            }
            let (first, vectors) = (all.start / WIDTH, all.end.div_ceil(WIDTH) - all.start / WIDTH);
            debug_assert!(first + vectors <= VECTORS);
            let a = packed[index * dim..].as_ptr();
            let c = scores.as_mut_ptr();
            // SAFETY: as above.
            unsafe {
                let c = c.add(first * WIDTH);
                match keys {
                    Pointers::F32(b) => {
                        let b = Block { start: b.start.wrapping_add(first * b.panel), ..b };
                        product::<V, f32, 1, ROWS, false>(rows, a, b, dim, vectors, c, CHUNK);
                    }
                    Pointers::F16(b) => {
                        let b = Block { start: b.start.wrapping_add(first * b.panel), ..b };
                        product::<V, _, 1, ROWS, false>(rows, a, b, dim, vectors, c, CHUNK);
                    }
                }
            }
            let rule = Rule { scale: self.spec.scale, cap: self.spec.softcap };
            let (mut found, mut ranges) = ([(0.0, 0.0); ROWS], [const { 0..0 }; ROWS]);
            let mut common = all.clone();
            // SAFETY: as above.
            let zero = unsafe { V::splat(0.0) };
            let (mut tops, mut lanes, mut hidden) = ([zero; ROWS], [zero; ROWS], 0_u32);
            for row in 0..rows {
                let own = seen(block + row);
                let line = c.wrapping_add(row * CHUNK);
                if own.is_empty() {
                    // Weights of zero for all; what they give is dropped.
                    for key in all.clone() {
                        // SAFETY: as above.
                        unsafe { line.add(key).write(0.0) };
                    }
                    ranges[row] = all.clone();
                    hidden |= 1 << row;
                    continue;
                }
                let mask = self.mask.map(|mask| self.mask_of(&mask, kv_head, block + row, base, own.clone()));
                // SAFETY: as above.
                tops[row] = unsafe { settle::<V>(line, &own, rule, mask) };
                common = common.start.max(own.start)..common.end.min(own.end);
                ranges[row] = own;
            }
            // One kind of step after another for all rows, so that the latency of each is hidden.
            for row in 0..rows {
                // SAFETY: as above.
                found[row].0 = unsafe { tops[row].largest() };
            }
            for row in 0..rows {
                let line = c.wrapping_add(row * CHUNK);
                if hidden >> row & 1 == 0 {
                    // SAFETY: as above.
                    lanes[row] = unsafe { exponentials::<V>(line, &ranges[row], found[row].0) };
                }
            }
            for row in 0..rows {
                // SAFETY: as above.
                found[row].1 = unsafe { lanes[row].sum() };
            }
            let to = partial.as_mut_ptr();
            partial[..rows * padded].fill(0.0);
            // What all rows see together; before and after that each run of rows with one range its own,
            // so that what is out of a row's sight does not touch it.
            let (mut row, mut stage) = (0, 0);
            while stage < 3 {
                let (begin, run) = (row, ranges[row].clone());
                let mut count = ranges[row..rows].iter().take_while(|&range| *range == run).count();
                let keys = match (stage, common.is_empty()) {
                    (0, true) => run,
                    (0, false) => run.start..common.start,
                    (1, false) => {
                        count = rows;
                        common.clone()
                    }
                    (2, false) => common.end..run.end,
                    _ => 0..0,
                };
                row += count;
                if row == rows {
                    (row, stage) = (0, stage + 1);
                }
                if keys.is_empty() {
                    continue;
                }
                let (a, to) = (c.wrapping_add(begin * CHUNK + keys.start), to.wrapping_add(begin * padded));
                // SAFETY: as above.
                unsafe {
                    match values {
                        Pointers::F32(b) => {
                            let b = Block { start: b.start.wrapping_add(keys.start * b.row), ..b };
                            product::<V, f32, CHUNK, 1, true>(count, a, b, keys.len(), padded / WIDTH, to, padded);
                        }
                        Pointers::F16(b) => {
                            let b = Block { start: b.start.wrapping_add(keys.start * b.row), ..b };
                            product::<V, _, CHUNK, 1, true>(count, a, b, keys.len(), padded / WIDTH, to, padded);
                        }
                    }
                }
            }
            let (totals, sums) = match &mut own {
                Some(part) => (&mut *part.totals, &mut *part.sums),
                None => (&mut totals[index..], &mut sums[index * padded..]),
            };
            // SAFETY: as above.
            unsafe { join::<V>(&mut totals[..rows], sums.as_mut_ptr(), &found[..rows], to, padded / WIDTH) };
        }
    }

    /// The mask of a query over some keys of a chunk.
    fn mask_of(&self, mask: &Strided<'a>, kv_head: usize, query: usize, base: usize, keys: Range<usize>) -> &'a [f32] {
        let head = kv_head * self.group + query % self.group;
        let at = head * mask.head + query / self.group * mask.row + base;
        &mask.values[at + keys.start..at + keys.end]
    }

    /// Writes the results of queries.
    ///
    /// # Safety
    /// As [`AttentionCall::run_items`]; the instruction set of `V`.
    #[inline(always)]
    unsafe fn finish<V: Lanes>(
        &self,
        kv_head: usize,
        queries: Range<usize>,
        sums: &[f32],
        totals: &[(f32, f32)],
        out: &Disjoint<'_, f32>,
    ) {
        let padded = padded(self.spec.head_dim);
        for (index, query) in queries.enumerate() {
            // SAFETY: every query is in one item only.
            let out = unsafe { out.part(self.place(kv_head, query)) };
            let (_, sum) = totals[index];
            if sum == 0.0 {
                out.fill(0.0);
                continue;
            }
            let factor = 1.0 / sum;
            for (out, x) in out.iter_mut().zip(&sums[index * padded..]) {
                *out = x * factor;
            }
        }
    }
}
