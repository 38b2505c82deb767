//! Memory of the process, and mapped files.
#![allow(
    unsafe_code,
    reason = "threads write parts of one region that the borrow checker cannot tell apart, and a mapped file can change"
)]

use crate::kernels::Team;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// Memory of the process with parts that are filled once each, whose pages exist once they are written; huge pages where the
/// system has them.
pub(super) struct Memory {
    map: memmap2::MmapRaw,
    /// Parts that do not overlap, inside the map.
    parts: Vec<Range<usize>>,
    filled: Vec<OnceLock<()>>,
}

impl Memory {
    /// Memory of `len` bytes with these parts, which ascend.
    pub(super) fn new(len: usize, parts: Vec<Range<usize>>) -> io::Result<Self> {
        let ascend = parts.windows(2).all(|two| two[0].end <= two[1].start);
        let proper = parts.iter().all(|part| part.start <= part.end && part.end <= len);
        if !ascend || !proper {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "parts of a region overlap"));
        }
        let map = memmap2::MmapRaw::from(memmap2::MmapOptions::new().len(len.max(1)).map_anon()?);
        #[cfg(target_os = "linux")]
        {
            // A hint: the system may have no huge pages.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let filled = parts.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { map, parts, filled })
    }

    /// Fills a part, `chunk` blocks of `block` bytes a call on the threads of `team`; `f` gets the numbers of the blocks and
    /// their bytes. A second call for a part does nothing, and waits for the first.
    pub(super) fn fill(
        &self,
        index: usize,
        block: usize,
        chunk: usize,
        team: &Team,
        f: impl Fn(Range<usize>, &mut [u8]) + Sync,
    ) {
        let part = &self.parts[index];
        let blocks = part.len() / block.max(1);
        self.filled[index].get_or_init(|| {
            team.run_chunks(blocks, chunk, |range| {
                let (start, len) = (part.start + range.start * block, range.len() * block);
                assert!(start + len <= part.end, "a block lies inside its part");
                // SAFETY: inside the map, which is writable. Parts do not overlap, ranges of one run neither, a part is filled
                // by one call, and no one reads it before that has ended.
                let out = unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(start), len) };
                f(range, out);
            });
        });
    }

    /// A part that has been filled.
    pub(super) fn part(&self, index: usize) -> Option<&[u8]> {
        self.filled[index].get()?;
        let part = &self.parts[index];
        // SAFETY: inside the map, and filled: no one writes to it again.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(part.start), part.len()) })
    }
}

/// A file of the cache, mapped for reading and shared with other processes.
pub(super) fn map_file(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: files of the cache are complete when they get their name and are only removed after that, never written to or
    // cut short, which leaves this map whole. Another program that cuts one short ends this process with a
    // signal; one that writes into it is found by checksums up to the first use of a matrix, and changes numbers after that.
    let map = unsafe { memmap2::Mmap::map(file) }?;
    #[cfg(target_os = "linux")]
    {
        // A hint, as above. A file that was written in large pieces then takes huge pages of the page cache.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_filled_once_and_read_whole() {
        let team = Team::new(3).unwrap();
        let memory = Memory::new(10_000, vec![0..4096, 4096..4196, 5000..5000]).unwrap();
        assert!(memory.part(1).is_none());
        for value in [1u8, 2] {
            memory.fill(1, 10, 3, &team, |range, out| {
                out.chunks_mut(10).zip(range).for_each(|(out, i)| out.fill(value * 10 + i as u8));
            });
        }
        let want: Vec<u8> = (0..100).map(|i| 10 + i / 10).collect();
        assert_eq!(memory.part(1).unwrap(), want);
        memory.fill(2, 64, 1, &team, |_, _| panic!("there is nothing to fill"));
        assert_eq!(memory.part(2).unwrap(), b"");
        assert!(memory.part(0).is_none());
    }

    #[test]
    fn parts_that_overlap_are_refused() {
        let backwards = Range { start: 3, end: 2 };
        for parts in [vec![0..10, 9..12], vec![5..8, 0..2], vec![0..0, 0..101], vec![0..0, backwards]] {
            assert!(Memory::new(100, parts).is_err());
        }
    }
}
