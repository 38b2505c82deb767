//! Which of many texts stand at a place of another.

use std::ops::Range;

/// Texts in order, with where those that begin with each byte stand.
#[derive(Clone, Debug)]
pub(super) struct Prefixes<T> {
    /// Sorted by text; no two have one text, none is empty.
    entries: Vec<T>,
    by_first: Vec<Range<usize>>,
}

impl<T: AsRef<str>> Prefixes<T> {
    /// Of two entries with one text the first given is kept; empty ones are left out.
    pub(super) fn new(mut entries: Vec<T>) -> Self {
        entries.retain(|entry| !entry.as_ref().is_empty());
        entries.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        entries.dedup_by(|later, first| later.as_ref() == first.as_ref());
        let first_byte = |entry: &T| entry.as_ref().as_bytes().first().copied().unwrap_or(0);
        let by_first = (0..=255_u8)
            .map(|byte| {
                let start = entries.partition_point(|entry| first_byte(entry) < byte);
                let end = entries.partition_point(|entry| first_byte(entry) <= byte);
                start..end
            })
            .collect();
        Self { entries, by_first }
    }

    /// The entry of exactly this text.
    pub(super) fn get(&self, text: &str) -> Option<&T> {
        let at = self.entries.binary_search_by(|entry| entry.as_ref().cmp(text));
        at.ok().and_then(|at| self.entries.get(at))
    }

    /// Every entry that `text` begins with, the shortest first.
    pub(super) fn of<'a>(&'a self, text: &[u8], mut found: impl FnMut(&'a T)) {
        let Some(&first) = text.first() else { return };
        let Some(mut candidates) = self.entries.get(self.by_first[usize::from(first)].clone()) else { return };
        let mut depth = 1;
        // All candidates begin with `text[..depth]`; one that is no longer than that stands first.
        while let Some(first) = candidates.first() {
            if first.as_ref().len() == depth {
                found(first);
                candidates = &candidates[1..];
            }
            let Some(&byte) = text.get(depth) else { break };
            let byte_of = |entry: &T| entry.as_ref().as_bytes()[depth];
            let start = candidates.partition_point(|entry| byte_of(entry) < byte);
            let end = candidates.partition_point(|entry| byte_of(entry) <= byte);
            candidates = &candidates[start..end];
            depth += 1;
        }
    }
}
