//! What threads that work on different keys of the same queries leave for each other.
#![allow(unsafe_code, reason = "threads write disjoint parts of one buffer")]

use super::AttentionSpec;
use super::block::{CHUNK, ROWS};
use super::call::padded;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Results of chunks of keys, for the calls of one session, one after another.
#[derive(Debug, Default)]
pub struct AttentionShared {
    sums: Cells<f32>,
    totals: Cells<(f32, f32)>,
    /// Items done so far of each key head; zero between two calls.
    done: Vec<AtomicUsize>,
}

/// A buffer of which threads write disjoint parts.
#[derive(Debug, Default)]
struct Cells<T>(Vec<UnsafeCell<T>>);

// SAFETY: parts are only handed out by an unsafe function, whose caller promises that they are
// disjoint or that writing is over.
unsafe impl<T: Send> Sync for Cells<T> {}

impl<T> Cells<T> {
    /// Some elements.
    ///
    /// # Safety
    /// No one else uses them meanwhile.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the contract of the function")]
    unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        let cells = &self.0[from..from + len];
        // SAFETY: a cell is its element, and the caller promises that no one else uses these.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), len) }
    }
}

/// The result of one chunk.
pub(super) struct Part<'a> {
    pub sums: &'a mut [f32],
    pub totals: &'a mut [(f32, f32)],
}

impl AttentionShared {
    /// Makes room for calls with this specification and up to `keys` keys; they allocate nothing.
    pub fn reserve(&mut self, spec: &AttentionSpec, keys: usize) {
        let queries = spec.kv_heads.saturating_mul(keys.div_ceil(CHUNK)).saturating_mul(ROWS);
        let sums = queries.saturating_mul(padded(spec.head_dim));
        let grow = |len: usize, needed: usize| needed.saturating_sub(len);
        self.sums.0.extend((0..grow(self.sums.0.len(), sums)).map(|_| UnsafeCell::new(0.0)));
        self.totals.0.extend((0..grow(self.totals.0.len(), queries)).map(|_| UnsafeCell::new((0.0, 0.0))));
        self.done.extend((0..grow(self.done.len(), spec.kv_heads)).map(|_| AtomicUsize::new(0)));
    }

    /// Whether there is room for a call.
    pub(super) fn holds(&self, kv_heads: usize, chunks: usize, queries: usize, padded: usize) -> bool {
        let queries = kv_heads * chunks * queries;
        self.totals.0.len() >= queries && self.sums.0.len() >= queries * padded && self.done.len() >= kv_heads
    }

    /// The room of item `index`, of `queries` queries.
    ///
    /// # Safety
    /// No one else uses it meanwhile.
    pub(super) unsafe fn part(&self, index: usize, queries: usize, padded: usize) -> Part<'_> {
        // SAFETY: the caller's promise.
        unsafe {
            Part {
                sums: self.sums.part(index * queries * padded, queries * padded),
                totals: self.totals.part(index * queries, queries),
            }
        }
    }

    /// Whether the item that ends here is the last of its key head. What others wrote for theirs is
    /// then seen.
    pub(super) fn last(&self, kv_head: usize, items: usize) -> bool {
        let last = self.done[kv_head].fetch_add(1, Ordering::AcqRel) + 1 == items;
        if last {
            self.done[kv_head].store(0, Ordering::Relaxed);
        }
        last
    }
}
