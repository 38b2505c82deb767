//! A mutable slice that the threads of a team write in disjoint parts.
#![allow(
    unsafe_code,
    reason = "the parts of a result that threads write are disjoint by construction, which the borrow checker cannot see for strided parts"
)]

use std::marker::PhantomData;
use std::ops::Range;

/// A borrowed slice whose parts can be taken mutably from several threads.
pub struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out parts of a mutable slice, as `split_at_mut` would, and `T: Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Borrows a slice for the time of a parallel region.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// A slice that is borrowed elsewhere, by its first element.
    ///
    /// # Safety
    /// `len` elements from `start` on are valid for the lifetime, and touched by nobody but through parts that overlap no
    /// other access.
    pub(crate) unsafe fn from_raw(start: *mut T, len: usize) -> Self {
        Self { start, len, borrow: PhantomData }
    }

    /// Elements of the slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part `range`.
    ///
    /// # Safety
    /// No other part that is alive at the same time may overlap it.
    ///
    /// # Panics
    /// Unless the range lies inside the slice.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the contract of the function")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part of a result lies inside it");
        // SAFETY: inside the borrowed slice; the caller promises that no other part overlaps.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
