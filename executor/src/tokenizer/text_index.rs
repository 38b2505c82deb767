//! Token texts in one block of memory, and the way back from a text to its id.
//!
//! A vocabulary of 262,144 tokens is indexed in a few milliseconds: one allocation for all texts, one for the table. The hash is
//! keyed by a random number per process, so that no file can be made to collide on purpose.

use super::TokenizerError;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Texts by id and ids by text.
#[derive(Clone, Debug)]
pub(super) struct TextIndex {
    texts: String,
    /// `texts[ends[id]..ends[id + 1]]` is the text of `id`.
    ends: Vec<u32>,
    hashes: Vec<u64>,
    /// Open addressing: the upper half of a hash, then an id; or `EMPTY`.
    slots: Vec<u64>,
    keys: Keys,
}

const EMPTY: u64 = u64::MAX;
const UPPER: u64 = 0xFFFF_FFFF_0000_0000;
/// All token texts together: offsets are 32 bits wide.
const MAX_TEXT: usize = u32::MAX as usize;

impl TextIndex {
    /// Indexes the texts, the id of each being its place. A place without a text finds nothing. Of two ids with one text the
    /// lower is found. Errors: the texts are longer together than 4 GiB.
    pub(super) fn new<'a>(
        texts: impl ExactSizeIterator<Item = Option<&'a str>> + Clone,
    ) -> Result<Self, TokenizerError> {
        let count = texts.len();
        let length = texts.clone().flatten().map(str::len).sum::<usize>();
        if length > MAX_TEXT {
            return Err(TokenizerError::TooLong {
                what: "the text of all tokens together".to_owned(),
                bytes: length,
                limit: MAX_TEXT,
            });
        }
        let capacity = (count * 2).next_power_of_two().max(16);
        let mut index = Self {
            texts: String::with_capacity(length),
            ends: Vec::with_capacity(count + 1),
            slots: vec![EMPTY; capacity],
            hashes: Vec::with_capacity(count),
            keys: Keys::new(),
        };
        index.ends.push(0);
        for text in texts.clone() {
            index.texts.push_str(text.unwrap_or(""));
            index.ends.push(index.texts.len() as u32);
            index.hashes.push(index.hash(text.unwrap_or("")));
        }
        // Nearly each slot misses the caches: with nothing else to do between two of them the processor waits for many at once.
        for (id, text) in texts.enumerate() {
            let hash = index.hashes[id];
            if let Some(text) = text
                && let (slot, None) = index.probe(text, hash)
            {
                index.slots[slot] = hash & UPPER | id as u64;
            }
        }
        Ok(index)
    }

    /// The id of a text.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.probe(text, self.hash(text)).1
    }

    /// The keyed hash of any text.
    pub(super) fn hash(&self, text: &str) -> u64 {
        self.keys.hash_text(text.as_bytes())
    }

    /// The hash of the text of an id.
    pub(super) fn hash_of(&self, id: u32) -> u64 {
        self.hashes.get(id as usize).copied().unwrap_or(0)
    }

    /// The text of an id; empty if there is none.
    pub(super) fn text(&self, id: u32) -> &str {
        let id = id as usize;
        match (self.ends.get(id), self.ends.get(id + 1)) {
            (Some(&start), Some(&end)) => &self.texts[start as usize..end as usize],
            _ => "",
        }
    }

    /// The slot where a text stands or would stand, and its id if it stands there.
    fn probe(&self, text: &str, hash: u64) -> (usize, Option<u32>) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == EMPTY {
                return (slot, None);
            }
            let id = found as u32;
            if (found ^ hash) & UPPER == 0 && self.text(id) == text {
                return (slot, Some(id));
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// The secret of a keyed hash by folded multiplication (as in wyhash: the two halves of a 128-bit product, combined).
#[derive(Clone, Copy, Debug)]
struct Keys(u64, u64);

impl Keys {
    /// Fresh random keys.
    fn new() -> Self {
        let random = |n: u8| {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u8(n);
            hasher.finish()
        };
        Self(random(0), random(1) | 1)
    }

    fn hash_text(self, text: &[u8]) -> u64 {
        let mut hash = self.0 ^ text.len() as u64;
        let (words, rest) = text.as_chunks::<8>();
        for word in words {
            hash = folded(hash ^ u64::from_le_bytes(*word), self.1);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        folded(hash ^ u64::from_le_bytes(last), self.1)
    }
}

fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_it_holds_and_nothing_else() {
        let texts: Vec<Option<String>> = (0..5000).map(|i| (i % 7 != 3).then(|| format!("token {}", i / 2))).collect();
        let index = TextIndex::new(texts.iter().map(Option::as_deref)).unwrap();
        for (id, text) in texts.iter().enumerate() {
            assert_eq!(index.text(id as u32), text.as_deref().unwrap_or(""));
            if let Some(text) = text {
                let first = texts.iter().position(|t| t.as_ref() == Some(text));
                assert_eq!(index.find(text), first.map(|i| i as u32));
            }
        }
        assert_eq!(index.find(""), None);
        assert_eq!(index.find("token 5000"), None);
        assert_eq!(index.text(5000), "");
    }
}
