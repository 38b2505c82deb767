//! A table from 64-bit hashes to ranks that is quick to build.
//!
//! Half a million entries inserted in random order would miss the caches half a million times. They are sorted roughly by hash
//! first, and the place of an entry grows with its hash, so that the table is filled from one end to the other.

/// Ranks by hash: open addressing, at most half full.
#[derive(Debug)]
pub(super) struct Ranks {
    /// How far a hash is shifted right to be a place.
    shift: u32,
    /// Hashes; 0 is an empty place.
    hashes: Vec<u64>,
    ranks: Vec<u32>,
}

/// Bits by which entries are sorted.
const SORTED_BITS: u32 = 9;

impl Ranks {
    /// The table of `hashes`, the rank of each being its place. Of equal hashes the last stays.
    pub(super) fn new(hashes: &[u64]) -> Self {
        let bits = (hashes.len() * 2).next_power_of_two().trailing_zeros().max(SORTED_BITS);
        let mut table = Self { shift: u64::BITS - bits, hashes: vec![0; 1 << bits], ranks: vec![0; 1 << bits] };
        let bucket = |hash: u64| (hash >> (u64::BITS - SORTED_BITS)) as usize;
        let mut starts = vec![0; 1 << SORTED_BITS];
        for &hash in hashes {
            starts[bucket(hash)] += 1;
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        let mut sorted = vec![(0, 0); hashes.len()];
        for (rank, &hash) in (0..).zip(hashes) {
            let place = &mut starts[bucket(hash)];
            sorted[*place] = (hash, rank);
            *place += 1;
        }
        for (hash, rank) in sorted {
            let place = table.place(hash);
            table.hashes[place] = never_zero(hash);
            table.ranks[place] = rank;
        }
        table
    }

    /// The rank of a hash.
    pub(super) fn get(&self, hash: u64) -> Option<u32> {
        let place = self.place(hash);
        (self.hashes[place] != 0).then(|| self.ranks[place])
    }

    /// Where a hash stands, or the empty place where it would.
    fn place(&self, hash: u64) -> usize {
        let mask = self.hashes.len() - 1;
        let mut place = (hash >> self.shift) as usize;
        loop {
            let found = self.hashes[place];
            if found == 0 || found == never_zero(hash) {
                return place;
            }
            place = (place + 1) & mask;
        }
    }
}

fn never_zero(hash: u64) -> u64 {
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_it_holds_and_nothing_else() {
        for count in [0, 1, 2, 255, 3000] {
            let hash = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut hashes: Vec<u64> = (0..count).map(hash).collect();
            let table = Ranks::new(&hashes);
            for (rank, &hash) in (0..).zip(&hashes) {
                assert_eq!(table.get(hash), Some(rank));
            }
            assert_eq!(table.get(hash(count + 7)), None);
            hashes.extend([5, u64::MAX, 5, u64::MAX, u64::MAX - 1]);
            let table = Ranks::new(&hashes);
            assert_eq!(table.get(5), Some(count as u32 + 2));
            assert_eq!(table.get(u64::MAX), Some(count as u32 + 3));
            assert_eq!(table.get(u64::MAX - 1), Some(count as u32 + 4));
        }
    }
}
