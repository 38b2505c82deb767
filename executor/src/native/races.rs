//! Who touches what between two barriers: how debug builds prove the schedule of a step while it runs.

/// The block of intermediates.
pub(super) const BLOCK: usize = 0;
/// The caches, each one element.
pub(super) const CACHES: usize = 1;
/// What threads leave for each other in one attention.
pub(super) const ATTENTION: usize = 2;
/// The first of the quantised operands, each a space of its own whose elements are rows.
pub(super) const CODES: usize = 3;

#[cfg(debug_assertions)]
pub(super) use log::{Log, Touch};

#[cfg(debug_assertions)]
mod log {
    use std::ops::Range;
    use std::sync::Mutex;

    /// One access: of `rows` stretches of `len` elements that begin `stride` apart.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Touch {
        space: usize,
        start: usize,
        len: usize,
        rows: usize,
        stride: usize,
        write: bool,
    }

    impl Touch {
        pub fn flat(space: usize, range: Range<usize>, write: bool) -> Self {
            Touch { space, start: range.start, len: range.len(), rows: 1, stride: 0, write }
        }

        pub fn columns(start: usize, len: usize, rows: usize, stride: usize) -> Self {
            Touch { space: super::BLOCK, start, len, rows, stride, write: true }
        }

        fn stretches(self) -> impl Iterator<Item = Range<usize>> {
            (0..self.rows).map(move |row| self.start + row * self.stride..self.start + row * self.stride + self.len)
        }

        fn hull(self) -> Range<usize> {
            self.start..self.start + self.rows.saturating_sub(1) * self.stride + self.len
        }

        fn meets(self, other: Touch) -> bool {
            let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
            if self.space != other.space || !(self.write || other.write) || !meet(&self.hull(), &other.hull()) {
                return false;
            }
            if self.rows > 1 && other.rows > 1 && self.stride == other.stride {
                // Of one matrix: columns meet, or nothing does.
                let apart = (other.start as i128 - self.start as i128).rem_euclid(self.stride as i128) as usize;
                return apart < self.len || apart + other.len > self.stride;
            }
            self.stretches().any(|a| other.stretches().any(|b| meet(&a, &b)))
        }
    }

    /// The accesses since the last barrier.
    #[derive(Debug, Default)]
    pub(in super::super) struct Log(Mutex<(usize, Vec<(usize, Touch)>)>);

    impl Log {
        /// Begins a step.
        pub fn clear(&self) {
            if let Ok(mut log) = self.0.lock() {
                log.1.clear();
            }
        }

        /// Notes an access by `thread`, after so many barriers.
        ///
        /// # Panics
        /// Where it meets one of another thread since the last barrier: a fault of the schedule.
        pub fn touch(&self, thread: usize, passed: usize, touch: Touch) {
            let Ok(mut log) = self.0.lock() else { return };
            let (epoch, touches) = &mut *log;
            if *epoch != passed {
                *epoch = passed;
                touches.clear();
            }
            let met = touches.iter().find(|(who, other)| *who != thread && touch.meets(*other)).copied();
            touches.push((thread, touch));
            drop(log);
            assert!(met.is_none(), "thread {thread}: {touch:?} after barrier {passed} meets {met:?}");
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn accesses_of_two_threads_must_not_meet() {
            let clash = |a: Touch, b: Touch| a.meets(b) && b.meets(a);
            let flat = |range, write| Touch::flat(0, range, write);
            assert!(clash(flat(0..4, true), flat(3..5, false)));
            assert!(!clash(flat(0..4, false), flat(3..5, false)));
            assert!(!clash(flat(0..3, true), flat(3..5, true)));
            assert!(!clash(Touch::flat(1, 0..4, true), flat(0..4, true)));
            // Columns of a matrix at 2 of 3 rows of 10.
            let columns = |from: usize, len| Touch::columns(2 + from, len, 3, 10);
            assert!(!clash(columns(0, 4), columns(4, 6)));
            assert!(clash(columns(0, 5), columns(4, 6)));
            assert!(clash(columns(0, 4), flat(13..14, false)));
            assert!(!clash(columns(0, 4), flat(6..12, false)));
        }

        #[test]
        fn a_barrier_parts_accesses() {
            let log = Log::default();
            log.touch(0, 0, Touch::flat(0, 0..4, true));
            log.touch(0, 0, Touch::flat(0, 0..4, true));
            log.touch(1, 1, Touch::flat(0, 0..4, true));
            let met = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                log.touch(0, 1, Touch::flat(0, 2..3, false));
            }));
            assert!(met.is_err());
        }
    }
}
