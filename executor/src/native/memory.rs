//! The memory of a step that the threads of a team share.
//!
//! A step is a list of instructions with barriers between them, placed when the list was made
//! ([`super::schedule`]): of two accesses of different threads to the same memory, one of them a write, a barrier
//! always lies between. [`Shared`] hands out slices on that ground. Builds with debug assertions write down who touches
//! what between two barriers and panic where two threads meet.
#![allow(
    unsafe_code,
    reason = "the borrow checker cannot see that a barrier lies between a thread's write and another's access"
)]

use crate::cache::Cache;
use crate::kernels::barrier::{Broken, Member};
use crate::kernels::disjoint::Disjoint;
use crate::kernels::packed::{Quantized, QuantizedRows};
use crate::kernels::room::grow;
use crate::kernels::{AttentionCall, AttentionScratch, AttentionShared};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a cache line.
pub(super) const LINE: usize = 16;

/// A cache line of numbers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
#[allow(dead_code, reason = "seen as its elements")]
struct Line([f32; LINE]);

/// Numbers that begin at a cache line. The memory grows and is used again.
#[derive(Debug, Default)]
pub(super) struct Block(Vec<Line>);

impl Block {
    /// Makes it at least so many elements long.
    pub fn grow(&mut self, len: usize) {
        // What was there means nothing to the next step.
        grow(&mut self.0, len.div_ceil(LINE), Line::default());
    }

    /// The elements.
    pub fn values(&self) -> &[f32] {
        // SAFETY: a line is its elements, without padding.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }

    /// The elements, to be written.
    pub fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * LINE) }
    }
}

/// Where an intermediate lies: in the block that all threads share, or in each thread's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Every thread computes it for itself.
    pub own: bool,
    /// The first element.
    pub at: usize,
    /// Elements.
    pub len: usize,
}

/// The memory of one step.
pub(super) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    caches: *mut Cache,
    cache_count: usize,
    codes: &'a [Codes<'a>],
    #[cfg(debug_assertions)]
    log: &'a super::races::Log,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: parts are handed out to threads under the promise of `Shared::of_schedule`; all that is shared is `Send`.
unsafe impl Sync for Shared<'_> {}

/// Quantised rows that threads fill together and read together.
pub(super) struct Codes<'a> {
    /// To fill rows.
    rows: QuantizedRows<'a>,
    /// To read all.
    all: *const Quantized,
}

// SAFETY: rows are filled and read under the promise of `Shared::of_schedule`.
unsafe impl Sync for Codes<'_> {}

impl<'a> Codes<'a> {
    /// The rows of `quantized`, which is borrowed as long.
    pub fn new(quantized: &'a mut Quantized) -> Self {
        let quantized: *mut Quantized = quantized;
        // SAFETY: it comes from a borrow of this lifetime. What fills rows holds pointers to the elements only, and
        // filling and reading never happen at once.
        unsafe { Codes { rows: (*quantized).rows(), all: quantized } }
    }
}

/// Quantises the only row of `codes`, which is nobody else's.
pub(super) fn quantize_one(codes: &mut Quantized, values: &[f32]) {
    // SAFETY: nobody else fills it.
    unsafe { codes.rows().quantize(0, values) };
}

impl<'a> Shared<'a> {
    /// Memory for a step.
    ///
    /// Whoever makes it promises that between two barriers what one thread writes no other thread touches, through
    /// any [`Hand`]: that it runs instructions with the barriers of [`super::barriers`], and that each thread touches its
    /// share of them only. All of `unsafe` here rests on that promise.
    pub fn of_schedule(
        block: &'a mut Block,
        caches: &'a mut [Cache],
        codes: &'a [Codes<'a>],
        #[cfg(debug_assertions)] log: &'a super::races::Log,
    ) -> Self {
        let values = block.values_mut();
        Shared {
            start: values.as_mut_ptr(),
            len: values.len(),
            caches: caches.as_mut_ptr(),
            cache_count: caches.len(),
            codes,
            #[cfg(debug_assertions)]
            log,
            borrow: PhantomData,
        }
    }
}

/// What one thread does to the memory of a step.
pub(super) struct Hand<'a> {
    pub member: Member<'a>,
    shared: &'a Shared<'a>,
    own: *mut f32,
    own_len: usize,
    /// Barriers passed.
    passed: Cell<usize>,
    borrow: PhantomData<&'a mut [f32]>,
}

impl<'a> Hand<'a> {
    /// The hand of `member`, with memory of its own.
    pub fn new(member: Member<'a>, shared: &'a Shared<'a>, own: &'a mut Block) -> Self {
        let own = own.values_mut();
        Hand { member, shared, own_len: own.len(), own: own.as_mut_ptr(), passed: Cell::new(0), borrow: PhantomData }
    }

    /// Waits for all threads.
    pub fn wait(&self) -> Result<(), Broken> {
        self.passed.set(self.passed.get() + 1);
        self.member.wait()
    }

    fn start(&self, place: Place, range: &Range<usize>) -> *mut f32 {
        let (start, len) = if place.own { (self.own, self.own_len) } else { (self.shared.start, self.shared.len) };
        assert!(range.start <= range.end && range.end <= place.len, "a part of an intermediate lies inside it");
        assert!(place.at.checked_add(place.len).is_some_and(|end| end <= len), "an intermediate lies in its block");
        // SAFETY: inside the block, as just checked.
        unsafe { start.add(place.at + range.start) }
    }

    /// Elements of an intermediate. The slice must be dropped before this thread writes any of them, or passes a
    /// barrier after which another one does.
    pub fn read(&self, place: Place, range: Range<usize>) -> &[f32] {
        let start = self.start(place, &range);
        self.note(place, &range, false);
        // SAFETY: inside the block; nobody writes it meanwhile, by the promise of `Shared::of_schedule` and the rule above.
        unsafe { std::slice::from_raw_parts(start, range.len()) }
    }

    /// Elements of an intermediate, to be written. The slice must be dropped before this thread touches any of them
    /// otherwise, or passes a barrier.
    #[allow(clippy::mut_from_ref, reason = "the contract of the function")]
    pub fn write(&self, place: Place, range: Range<usize>) -> &mut [f32] {
        let start = self.start(place, &range);
        self.note(place, &range, true);
        // SAFETY: as above, and nobody else touches it.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }

    /// Some columns of an intermediate of rows of `stride` elements: the whole of it, of which only these columns may
    /// be written.
    pub fn columns(&self, place: Place, stride: usize, columns: Range<usize>) -> Disjoint<'_, f32> {
        let start = self.start(place, &(0..place.len));
        self.note_columns(place, stride, columns);
        // SAFETY: inside the block; other threads write other columns, by the promise of `Shared::of_schedule`.
        unsafe { Disjoint::from_raw(start, place.len) }
    }

    /// Does an item of an attention, which nobody else does.
    pub fn attend(
        &self,
        place: Place,
        call: &AttentionCall<'_>,
        item: usize,
        scratch: &mut AttentionScratch,
        shared: &AttentionShared,
    ) {
        let start = self.start(place, &(0..place.len));
        // SAFETY: inside the block; each item is claimed once, and nobody else touches the result, by the promise of
        // `Shared::of_schedule`.
        unsafe { call.run_items(item..item + 1, scratch, shared, &Disjoint::from_raw(start, place.len)) };
    }

    /// A cache.
    pub fn cache(&self, index: usize) -> &Cache {
        assert!(index < self.shared.cache_count, "a step names caches of its session");
        self.note_other(super::races::CACHES, index..index + 1, false);
        // SAFETY: inside the borrowed slice; nobody writes it meanwhile, by the promise of `Shared::of_schedule`.
        unsafe { &*self.shared.caches.add(index) }
    }

    /// Writes the keys and the values of a row of a cache, which is there already; `false` where it holds no numbers.
    pub fn write_cache(&self, index: usize, row: usize, keys: &[f32], values: &[f32]) -> bool {
        assert!(index < self.shared.cache_count, "a step names caches of its session");
        self.note_other(super::races::CACHES, index..index + 1, true);
        // SAFETY: inside the borrowed slice, and nobody else touches it, by the promise of `Shared::of_schedule`.
        let cache = unsafe { &mut *self.shared.caches.add(index) };
        let Some([to_keys, to_values]) = cache.writers() else { return false };
        // SAFETY: as above.
        unsafe {
            to_keys.write_row(row, keys);
            to_values.write_row(row, values);
        }
        true
    }

    /// Quantised rows.
    pub fn codes(&self, index: usize) -> &Quantized {
        self.note_other(super::races::CODES + index, 0..usize::MAX, false);
        // SAFETY: it outlives the step; nobody fills rows meanwhile, by the promise of `Shared::of_schedule`.
        unsafe { &*self.shared.codes[index].all }
    }

    /// Quantises one row.
    pub fn quantize(&self, index: usize, row: usize, values: &[f32]) {
        self.note_other(super::races::CODES + index, row..row + 1, true);
        // SAFETY: nobody else touches this row, by the promise of `Shared::of_schedule`.
        unsafe { self.shared.codes[index].rows.quantize(row, values) };
    }

    #[cfg(debug_assertions)]
    fn note_other(&self, space: usize, range: Range<usize>, write: bool) {
        self.shared.log.touch(self.member.index, self.passed.get(), super::races::Touch::flat(space, range, write));
    }

    #[cfg(debug_assertions)]
    fn note(&self, place: Place, range: &Range<usize>, write: bool) {
        if !place.own {
            self.note_other(super::races::BLOCK, place.at + range.start..place.at + range.end, write);
        }
    }

    #[cfg(debug_assertions)]
    fn note_columns(&self, place: Place, stride: usize, columns: Range<usize>) {
        if !place.own {
            let rows = place.len.checked_div(stride).unwrap_or(0);
            let touch = super::races::Touch::columns(place.at + columns.start, columns.len(), rows, stride);
            self.shared.log.touch(self.member.index, self.passed.get(), touch);
        }
    }

    #[cfg(not(debug_assertions))]
    fn note_other(&self, _: usize, _: Range<usize>, _: bool) {}

    #[cfg(not(debug_assertions))]
    fn note(&self, _: Place, _: &Range<usize>, _: bool) {}

    #[cfg(not(debug_assertions))]
    fn note_columns(&self, _: Place, _: usize, _: Range<usize>) {}
}
