//! Byte-pair merges: the table and the merging of one word.
//!
//! Of all neighbouring pairs that the table holds, the one of the lowest rank is merged, the leftmost first among equals, until
//! none is left. Short words scan for it; long ones keep a queue, so that a word of a megabyte takes n·log n steps.
//!
//! The table is keyed by a 64-bit keyed hash of the two texts, which needs no look-up of tokens to build: half a million merges
//! take some tens of milliseconds. What a merge makes is looked up when it is first used.

use super::TokenizerError;
use super::ranks::Ranks;
use super::text_index::TextIndex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Merges by the texts of their two parts.
#[derive(Debug)]
pub(super) struct Merges {
    ranks: Ranks,
    /// By rank: one more than the id of the token that the merge makes, 0 while it is not known.
    results: Vec<AtomicU32>,
}

/// The rank of a pair that is not merged.
const NONE: u32 = u32::MAX;
/// Words up to this many symbols are merged by scanning.
const SCANNED: usize = 40;

impl Merges {
    /// The table of `merges`, in the order of their ranks, to be used with the tokens of `index`. A pair given twice has its
    /// later rank. A pair of texts that are no tokens is never used.
    pub(super) fn new<'a>(merges: impl ExactSizeIterator<Item = (&'a str, &'a str)>, index: &TextIndex) -> Self {
        let hashes = merges.map(|(left, right)| pair(index.hash(left), index.hash(right)));
        let hashes: Vec<u64> = hashes.collect();
        let results = std::iter::repeat_with(AtomicU32::default).take(hashes.len());
        Self { ranks: Ranks::new(&hashes), results: results.collect() }
    }

    /// True if some merge makes this text.
    pub(super) fn make(&self, text: &str, index: &TextIndex) -> bool {
        let mut cuts = text.char_indices().skip(1);
        cuts.any(|(at, _)| {
            let (left, right) = text.split_at(at);
            let key = pair(index.hash(left), index.hash(right));
            self.ranks.get(key).is_some()
        })
    }

    /// Merges `symbols`, the word from `start` to the end, in place. Errors: a merge makes a text that is no token.
    pub(super) fn merge(&self, index: &TextIndex, symbols: &mut Vec<u32>, start: usize) -> Result<(), TokenizerError> {
        match symbols.len() - start {
            0 | 1 => Ok(()),
            2..=SCANNED => self.merge_scanning(index, symbols, start),
            _ => self.merge_queued(index, symbols, start),
        }
    }

    fn rank(&self, index: &TextIndex, left: u32, right: u32) -> u32 {
        let key = pair(index.hash_of(left), index.hash_of(right));
        self.ranks.get(key).unwrap_or(NONE)
    }

    /// The token that the merge of this rank makes of this pair.
    fn result(&self, index: &TextIndex, rank: u32, left: u32, right: u32) -> Result<u32, TokenizerError> {
        let known = &self.results[rank as usize];
        if let Some(id) = known.load(Ordering::Relaxed).checked_sub(1) {
            return Ok(id);
        }
        let (left, right) = (index.text(left), index.text(right));
        let joined = format!("{left}{right}");
        let id = index.find(&joined).ok_or_else(|| TokenizerError::MergeToken {
            rank: rank as usize,
            left: left.to_owned(),
            right: right.to_owned(),
            missing: joined,
        })?;
        known.store(id + 1, Ordering::Relaxed);
        Ok(id)
    }

    fn merge_scanning(&self, index: &TextIndex, symbols: &mut Vec<u32>, start: usize) -> Result<(), TokenizerError> {
        let word = &mut symbols[start..];
        let mut length = word.len();
        let mut ranks = [NONE; SCANNED];
        for (rank, pair) in ranks.iter_mut().zip(word.windows(2)) {
            *rank = self.rank(index, pair[0], pair[1]);
        }
        loop {
            let pairs = ranks[..length - 1].iter().copied().enumerate();
            let Some((at, rank)) = pairs.min_by_key(|&(_, rank)| rank) else { break };
            if rank == NONE {
                break;
            }
            word[at] = self.result(index, rank, word[at], word[at + 1])?;
            word.copy_within(at + 2..length, at + 1);
            ranks.copy_within(at + 1..length - 1, at);
            length -= 1;
            if at > 0 {
                ranks[at - 1] = self.rank(index, word[at - 1], word[at]);
            }
            if at + 1 < length {
                ranks[at] = self.rank(index, word[at], word[at + 1]);
            }
        }
        symbols.truncate(start + length);
        Ok(())
    }

    fn merge_queued(&self, index: &TextIndex, symbols: &mut Vec<u32>, start: usize) -> Result<(), TokenizerError> {
        const END: u32 = u32::MAX;
        let word = &mut symbols[start..];
        let length = word.len();
        // Neighbours of a symbol that is still there; a symbol that was merged into its left neighbour has itself as next.
        let mut next: Vec<u32> = (1..=length as u32).collect();
        next[length - 1] = END;
        let mut before: Vec<u32> = (0..length as u32).map(|i| i.wrapping_sub(1)).collect();
        // Rank, then place: the order in which pairs are merged. The two symbols tell an entry that is out of date.
        let entry = |place: u32, left: u32, right: u32| {
            let rank = self.rank(index, left, right);
            (rank != NONE).then_some((Reverse((rank, place)), left, right))
        };
        let mut queue: BinaryHeap<_> =
            word.windows(2).enumerate().filter_map(|(i, pair)| entry(i as u32, pair[0], pair[1])).collect();
        while let Some((Reverse((rank, place)), left, right)) = queue.pop() {
            let at = place as usize;
            let follower = next[at];
            if follower == END || follower == place || word[at] != left {
                continue;
            }
            let gone = follower as usize;
            if word[gone] != right {
                continue;
            }
            let merged = self.result(index, rank, left, right)?;
            word[at] = merged;
            let beyond = next[gone];
            next[gone] = follower;
            next[at] = beyond;
            if beyond != END {
                before[beyond as usize] = place;
                queue.extend(entry(place, merged, word[beyond as usize]));
            }
            let previous = before[at];
            if previous != END {
                queue.extend(entry(previous, word[previous as usize], merged));
            }
        }
        let mut kept = 0;
        let mut at = 0;
        while at != END {
            word[kept] = word[at as usize];
            kept += 1;
            at = next[at as usize];
        }
        symbols.truncate(start + kept);
        Ok(())
    }
}

/// The key of a pair of texts, from their hashes.
fn pair(left: u64, right: u64) -> u64 {
    left.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32) ^ right
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens `a`…`c` and random merges of what is there already.
    fn random_table(seed: u64) -> (TextIndex, Merges) {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let mut tokens: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let mut merges: Vec<(String, String)> = Vec::new();
        while merges.len() < 60 {
            let left = tokens[next() % tokens.len()].clone();
            let right = tokens[next() % tokens.len()].clone();
            if left.len() + right.len() > 12 || merges.contains(&(left.clone(), right.clone())) {
                continue;
            }
            let joined = format!("{left}{right}");
            if !tokens.contains(&joined) {
                tokens.push(joined);
            }
            merges.push((left, right));
        }
        let index = TextIndex::new(tokens.iter().map(|t| Some(t.as_str()))).unwrap();
        let merges = merges.iter().map(|(l, r)| (l.as_str(), r.as_str()));
        let merges = Merges::new(merges, &index);
        (index, merges)
    }

    #[test]
    fn scanning_and_queue_agree() {
        let mut state = 99_u64;
        for seed in 0..50 {
            let (index, merges) = random_table(seed);
            for length in [2, 3, 5, 17, 39, 40] {
                state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
                let word: Vec<u32> = (0..length).map(|i| ((state >> (i % 60)) % 3) as u32).collect();
                let mut scanned = word.clone();
                merges.merge_scanning(&index, &mut scanned, 0).unwrap();
                let mut queued = word.clone();
                merges.merge_queued(&index, &mut queued, 0).unwrap();
                assert_eq!(scanned, queued, "{word:?}");
            }
        }
    }

    #[test]
    fn a_merge_without_its_token_is_an_error() {
        let index = TextIndex::new(["a", "b"].iter().map(|t| Some(*t))).unwrap();
        let merges = Merges::new([("a", "b")].into_iter(), &index);
        let error = merges.merge(&index, &mut vec![0, 1], 0).unwrap_err();
        assert_eq!(
            error,
            TokenizerError::MergeToken { rank: 0, left: "a".into(), right: "b".into(), missing: "ab".into() }
        );
    }

    #[test]
    fn a_long_word_takes_little_time() {
        let (index, merges) = random_table(3);
        let mut word: Vec<u32> = (0..1 << 20).map(|i: u32| i.wrapping_mul(i) % 3).collect();
        merges.merge(&index, &mut word, 0).unwrap();
        assert!(word.len() < 1 << 20);
    }
}
