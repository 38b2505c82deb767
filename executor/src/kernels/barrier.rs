//! A barrier for the threads of one job: they wait for each other without sleeping.

use super::team::pause;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A meeting point of a fixed number of threads, used again and again.
///
/// A thread that panics breaks the barrier, so that none waits for it: [`Barrier::wait`] then fails for all others, now
/// and later. Waiting is busy at first; after some tens of microseconds each turn gives the processor away, so that
/// more threads than processors still come through.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    /// Threads that wait at the present meeting.
    arrived: AtomicUsize,
    /// Meetings that are over.
    meetings: AtomicUsize,
    broken: AtomicBool,
}

/// A thread of the job panicked: the others leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl Barrier {
    /// A barrier for so many threads.
    pub fn new(threads: usize) -> Self {
        Barrier { threads, arrived: AtomicUsize::new(0), meetings: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Returns when all threads have come here. What any of them wrote before is then seen by all.
    ///
    /// # Errors
    /// [`Broken`] where one of them will not come.
    pub fn wait(&self) -> Result<(), Broken> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Broken);
        }
        let meeting = self.meetings.load(Ordering::Relaxed);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            // Nobody arrives at the next meeting before this one is over.
            self.arrived.store(0, Ordering::Relaxed);
            self.meetings.store(meeting.wrapping_add(1), Ordering::Release);
        }
        let mut turns = 0;
        while self.meetings.load(Ordering::Acquire) == meeting {
            // Who broke it may have been at this meeting, which then is over.
            if self.broken.load(Ordering::Acquire) && self.meetings.load(Ordering::Acquire) == meeting {
                return Err(Broken);
            }
            pause(&mut turns);
        }
        Ok(())
    }

    /// Lets all threads leave, who wait or will.
    pub(super) fn break_up(&self) {
        self.broken.store(true, Ordering::Release);
    }
}

/// One thread of a job that all threads of a team do together.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its number, from 0; 0 is the caller.
    pub index: usize,
    /// Threads in the job.
    pub count: usize,
    pub(super) barrier: &'a Barrier,
}

impl Member<'_> {
    /// [`Barrier::wait`]; nothing for one thread alone.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<(), Broken> {
        if self.count > 1 { self.barrier.wait() } else { Ok(()) }
    }
}

/// Breaks a barrier when it is dropped before [`Guard::done`].
pub(super) struct Guard<'a>(pub(super) Option<&'a Barrier>);

impl Guard<'_> {
    pub(super) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(barrier) = self.0 {
            barrier.break_up();
        }
    }
}
