//! Working memory that grows and is used again.
#![allow(unsafe_code, reason = "the system is advised about memory")]

/// Bytes from which on huge pages pay: one of them.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Makes a vector at least so long. Where it grows, its content is lost; large ones lie on huge pages where the system has
/// them, so that rows that are far apart do not take a page each.
pub(crate) fn grow<T: Clone>(values: &mut Vec<T>, len: usize, fill: T) {
    if values.len() < len {
        // Not `reserve` on what is there: that would copy it.
        *values = Vec::new();
        values.reserve_exact(len);
        advise(values);
        values.resize(len, fill);
    }
}

/// Asks for huge pages for memory that nothing has touched yet.
#[cfg(target_os = "linux")]
fn advise<T>(values: &Vec<T>) {
    const PAGE: usize = 4096;
    let start = values.as_ptr().addr().next_multiple_of(PAGE);
    let end = (values.as_ptr().addr() + values.capacity() * size_of::<T>()) / PAGE * PAGE;
    if end.saturating_sub(start) >= HUGE {
        let pages = values.as_ptr().with_addr(start).cast_mut().cast();
        // SAFETY: whole pages of the vector's memory; the advice changes how they are backed, not what they hold. It is a
        // hint, so that its result does not matter.
        unsafe { libc::madvise(pages, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Elsewhere there is no such advice.
#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &Vec<T>) {}

#[cfg(test)]
mod tests {
    #[test]
    fn kernels_room_grows_and_stays() {
        let mut room = Vec::new();
        for (len, total) in [(3, 3), (2, 3), (0, 3), (4 << 20, 4 << 20), (5, 4 << 20)] {
            super::grow(&mut room, len, 7_u8);
            assert_eq!(room.len(), total);
            assert!(room.iter().all(|&value| value == 7));
        }
    }
}
