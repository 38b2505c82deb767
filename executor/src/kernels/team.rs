//! A team of persistent threads that share the work of one kernel at a time.
//!
//! Between two kernels of a step a thread waits for the next one without sleeping, for some tens
//! of microseconds, since waking a thread takes longer than many kernels do; after that it sleeps.
//! No global thread pool is used.
#![allow(
    unsafe_code,
    reason = "a borrowed closure is handed to threads that outlive it; the call waits for all of them"
)]

use super::KernelError;
use super::barrier::{Barrier, Guard, Member};
use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The most threads that a team can have.
pub const MAX_THREADS: usize = 1024;

/// Checks of the bell before a waiting thread lets others run.
const SPINS: u32 = 2_000;
/// Turns given to other threads before a waiting thread sleeps.
const YIELDS: u32 = 64;

/// A fixed number of threads, the caller being one of them.
///
/// A team serves one caller at a time. A second caller, and a call from inside a running one,
/// does all of its work on its own thread instead of waiting, with the same results.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    gate: Mutex<()>,
}

/// What the caller and the workers share.
struct Shared {
    /// The state of the job: its number in the high half, then how many workers have entered it,
    /// and [`CLOSED`]. A change of the number is the signal to start.
    state: AtomicU64,
    /// The job. Only workers that have entered read it.
    job: UnsafeCell<Option<Job>>,
    /// Workers that have entered the job and left it.
    finished: AtomicUsize,
    /// Set with the last number: workers end.
    stop: AtomicBool,
    /// Workers that sleep, or are about to.
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
    /// What a worker panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The bit of the state that says that no more workers may enter.
const CLOSED: u64 = 1;
/// One worker that has entered.
const ENTERED: u64 = 2;

/// The number of the job in a state.
fn number(state: u64) -> u32 {
    (state >> 32) as u32
}

/// The workers that have entered in a state.
fn entered(state: u64) -> usize {
    (state as u32 >> 1) as usize
}

/// A borrowed closure without its lifetime; called with the number of the thread.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: `job` is written by the caller that holds the gate while the state is closed and all
// workers that had entered have left, and read by workers that entered after it was published
// (release on one side, acquire on the other). The closure behind the pointer is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is only followed while the call that made it waits.
unsafe impl Send for Shared {}

impl Team {
    /// A team of `threads` threads (1 to [`MAX_THREADS`]), the caller of a kernel included.
    ///
    /// # Errors
    /// [`KernelError::Attribute`] for another number and [`KernelError::Threads`] when the
    /// system does not start a thread.
    pub fn new(threads: usize) -> Result<Self, KernelError> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(KernelError::Attribute {
                what: "the number of threads",
                value: threads.to_string(),
                expected: "from 1 to 1024",
            });
        }
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(None),
            finished: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            bell: Condvar::new(),
            panic: Mutex::new(None),
        });
        let mut team = Self { shared, workers: Vec::new(), gate: Mutex::new(()) };
        for index in 1..threads {
            let shared = Arc::clone(&team.shared);
            let worker = std::thread::Builder::new()
                .name(format!("kernel-{index}"))
                .spawn(move || shared.work(index))
                .map_err(|source| KernelError::Threads { threads, source })?;
            team.workers.push(worker);
        }
        Ok(team)
    }

    /// A team with one thread per physical core that this process may use.
    ///
    /// # Errors
    /// As [`Team::new`].
    pub fn with_default_threads() -> Result<Self, KernelError> {
        Self::new(physical_cores())
    }

    /// Threads of the team.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f` with ranges that partition `0..n`, at most one a thread and in contiguous equal
    /// parts, and returns when all are done.
    pub fn run_ranges(&self, n: usize, f: impl Fn(Range<usize>) + Sync) {
        self.run_chunks(n, n.div_ceil(self.threads()).max(1), f);
    }

    /// Calls `f` with ranges of `chunk` indices (the last may be shorter) that partition `0..n`.
    /// A thread takes the next range when it is done with one, so that a thread which the system
    /// holds up delays only its own range. Returns when all are done.
    pub fn run_chunks(&self, n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
        let chunk = chunk.max(1);
        if self.workers.is_empty() || n <= chunk {
            if n > 0 {
                f(0..n);
            }
            return;
        }
        let next = AtomicUsize::new(0);
        let chunks = n.div_ceil(chunk);
        let work = |_| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= chunks {
                    return;
                }
                let start = index * chunk;
                f(start..n.min(start + chunk));
            }
        };
        // The caller comes back when no chunk is left, so workers that have not begun by then need
        // not: on a busy machine, waiting for them would cost more than they bring.
        self.start(&work, false);
    }

    /// Calls `f` once per thread, with the thread's number, and returns when all are done. A busy
    /// team's calls are made one after another on the caller's thread.
    ///
    /// # Panics
    /// When `f` does on any thread, after all have ended.
    pub fn run(&self, f: &(dyn Fn(usize) + Sync)) {
        self.start(f, true);
    }

    /// Calls `f` once per thread, and returns when all are done; the threads may wait for each other in
    /// between ([`Member::wait`]). A busy team's call is made on the caller's thread alone, as the only member.
    /// Allocates nothing.
    ///
    /// # Panics
    /// When `f` does on any thread, after all have ended.
    pub fn together(&self, f: impl Fn(Member<'_>) + Sync) {
        let gate = self.gate.try_lock().ok().filter(|_| !self.workers.is_empty());
        let count = if gate.is_some() { self.threads() } else { 1 };
        let barrier = Barrier::new(count);
        let job = |index| {
            let guard = Guard(Some(&barrier));
            f(Member { index, count, barrier: &barrier });
            guard.done();
        };
        match gate {
            Some(gate) => self.start_held(gate, &job, true),
            None => job(0),
        }
    }

    /// Calls `f` on the caller's thread and on the workers: on all of them, or on those that begin
    /// before the caller is done.
    fn start(&self, f: &(dyn Fn(usize) + Sync), all: bool) {
        let Ok(gate) = self.gate.try_lock() else {
            let threads = if all { self.threads() } else { 1 };
            return (0..threads).for_each(f);
        };
        if self.workers.is_empty() {
            return f(0);
        }
        self.start_held(gate, f, all);
    }

    /// [`Team::start`] of a team that has workers, by the holder of the gate.
    fn start_held(&self, gate: MutexGuard<'_, ()>, f: &(dyn Fn(usize) + Sync), all: bool) {
        let shared = &*self.shared;
        // SAFETY: the lifetime is dropped from the type only; this call waits for all workers.
        let job = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(f) };
        shared.open(Job(job));
        let own = catch_unwind(AssertUnwindSafe(|| f(0)));
        let mut turns = 0;
        while all && shared.finished.load(Ordering::Acquire) != self.workers.len() {
            pause(&mut turns);
        }
        let entered = entered(shared.state.fetch_or(CLOSED, Ordering::AcqRel));
        while shared.finished.load(Ordering::Acquire) != entered {
            pause(&mut turns);
        }
        let theirs = unpoisoned(shared.panic.lock()).take();
        drop(gate);
        match (own, theirs) {
            (Err(panic), _) | (Ok(()), Some(panic)) => resume_unwind(panic),
            (Ok(()), None) => {}
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.publish(CLOSED);
        for worker in self.workers.drain(..) {
            // A worker catches panics of jobs, so joining cannot fail; nor could a drop report it.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Team {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Team").field("threads", &self.threads()).finish()
    }
}

impl Shared {
    /// Publishes a job. The caller holds the gate, and the state is closed.
    fn open(&self, job: Job) {
        // SAFETY: no worker reads `job` now: the state is closed and those that entered have left.
        unsafe { *self.job.get() = Some(job) };
        self.finished.store(0, Ordering::Relaxed);
        self.publish(0);
    }

    /// Advances the number of the job and wakes the sleeping workers.
    fn publish(&self, flags: u64) {
        let number = number(self.state.load(Ordering::Relaxed)).wrapping_add(1);
        // Sequentially consistent, as are the two accesses in `wait`: either the worker sees the
        // new number or this sees the sleeper.
        self.state.store(u64::from(number) << 32 | flags, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(unpoisoned(self.lock.lock()));
            self.bell.notify_all();
        }
    }

    /// The life of a worker.
    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait(seen);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if !self.enter(seen) {
                continue;
            }
            // SAFETY: this worker has entered, so the job was written before and stays.
            if let Some(job) = unsafe { *self.job.get() } {
                // SAFETY: the call that published it waits until this worker has left.
                let f = unsafe { &*job.0 };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(index))) {
                    *unpoisoned(self.panic.lock()) = Some(panic);
                }
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    /// Enters the job of that number, unless it is closed or over.
    fn enter(&self, job: u32) -> bool {
        let enter = |state| (number(state) == job && state & CLOSED == 0).then_some(state + ENTERED);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok()
    }

    /// Waits for a job of another number than `seen`.
    fn wait(&self, seen: u32) -> u32 {
        let mut turns = 0;
        while turns < SPINS + YIELDS {
            let now = number(self.state.load(Ordering::Acquire));
            if now != seen {
                return now;
            }
            pause(&mut turns);
        }
        let mut guard = unpoisoned(self.lock.lock());
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let now = loop {
            let now = number(self.state.load(Ordering::SeqCst));
            if now != seen {
                break now;
            }
            guard = unpoisoned(self.bell.wait(guard));
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        now
    }
}

/// One turn of waiting: busy at first, then giving the processor away.
pub(super) fn pause(turns: &mut u32) {
    *turns = turns.saturating_add(1);
    if *turns < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// The value of a lock, whose data no panic can leave half-written.
fn unpoisoned<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Physical cores that this process may use; logical ones where the system does not tell.
pub fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let mut cores = std::collections::BTreeSet::new();
    for cpu in 0..MAX_THREADS {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        match std::fs::read_to_string(path) {
            Ok(siblings) => cores.insert(siblings),
            Err(_) => break,
        };
    }
    let physical = if cores.is_empty() { logical } else { cores.len() };
    physical.min(logical).clamp(1, MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_team_covers_every_index_once() {
        for threads in [1, 2, 3, 5] {
            let team = Team::new(threads).unwrap();
            for n in [0, 1, 2, 7, 100] {
                for chunk in [1, 3, 64] {
                    let counts: Vec<_> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                    team.run_chunks(n, chunk, |range| {
                        for index in range {
                            counts[index].fetch_add(1, Ordering::Relaxed);
                        }
                    });
                    assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn kernels_team_sleeps_and_wakes() {
        let team = Team::new(3).unwrap();
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let calls = AtomicUsize::new(0);
            team.run(&|_| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(calls.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn kernels_team_nested_and_concurrent_calls_finish() {
        let team = Team::new(2).unwrap();
        let calls = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        team.run_ranges(4, |outer| {
                            team.run_ranges(3, |inner| {
                                calls.fetch_add(outer.len() * inner.len(), Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(calls.load(Ordering::Relaxed), 3 * 50 * 12);
    }

    #[test]
    fn kernels_team_survives_a_panic() {
        let team = Team::new(3).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            team.run(&|index| assert_ne!(index, 1, "on purpose"));
        }));
        assert!(caught.is_err());
        let calls = AtomicUsize::new(0);
        team.run(&|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn kernels_team_members_meet() {
        // More threads than processors among them.
        for threads in [1, 2, 3, 9] {
            let team = Team::new(threads).unwrap();
            let counts: Vec<_> = (0..40).map(|_| AtomicUsize::new(0)).collect();
            team.together(|member| {
                assert_eq!(member.count, threads);
                for count in &counts {
                    count.fetch_add(1, Ordering::Relaxed);
                    member.wait().unwrap();
                    assert_eq!(count.load(Ordering::Relaxed), threads);
                }
            });
        }
    }

    #[test]
    fn kernels_team_members_leave_when_one_panics() {
        let team = Team::new(3).unwrap();
        for who in 0..3 {
            let left = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                team.together(|member| {
                    member.wait().unwrap();
                    assert_ne!(member.index, who, "on purpose");
                    if member.wait().is_err() && member.wait().is_err() {
                        left.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }));
            assert!(caught.is_err());
            assert_eq!(left.load(Ordering::Relaxed), 2);
        }
        let calls = AtomicUsize::new(0);
        team.together(|member| {
            member.wait().unwrap();
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn kernels_team_members_of_a_busy_team_are_alone() {
        let team = Team::new(2).unwrap();
        let inner = AtomicUsize::new(0);
        team.together(|outer| {
            team.together(|member| {
                assert_eq!((member.index, member.count), (0, 1));
                member.wait().unwrap();
                inner.fetch_add(1, Ordering::Relaxed);
            });
            outer.wait().unwrap();
        });
        assert_eq!(inner.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn kernels_team_refuses_absurd_sizes() {
        assert!(Team::new(0).is_err());
        assert!(Team::new(MAX_THREADS + 1).is_err());
        assert!(physical_cores() >= 1);
    }
}
