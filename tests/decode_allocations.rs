//! A decode step allocates nothing.

#![allow(clippy::unwrap_used, missing_docs, reason = "test helpers fail by panicking")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tallow::executor::Session;
use tallow::{Model, ModelOptions, Rows};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator, which is asked for all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_decode_step_allocates_nothing() {
    for threads in [1, 2] {
        let mut options = ModelOptions::default();
        options.program.threads = threads;
        let model = Model::storyteller_with(&options).unwrap();
        let mut session = Session::new(model.program().clone());
        session.forward(&[5, 9, 17, 300, 41], Rows::Last).unwrap();
        // More than a cache begins with.
        session.reserve(700).unwrap();
        for id in 0..4 {
            session.decode(100 + id).unwrap();
        }
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let mut sum = 0.0;
        for id in 0..600 {
            sum += session.decode(300 + id).unwrap()[7];
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "on {threads} threads");
        assert!(f32::is_finite(sum));
        assert_eq!(session.past(), 609);
    }
}
