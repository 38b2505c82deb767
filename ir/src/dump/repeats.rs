//! Repetition in a sequence of numbers, found by structure alone.

use std::collections::HashMap;
use std::ops::Range;

/// `count` equal stretches of `period` items, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub start: usize,
    pub period: usize,
    pub count: usize,
    /// How many items beyond the last stretch go on in the same way: the whole may begin that much later.
    pub slack: usize,
}

impl Repeat {
    fn of(range: Range<usize>, period: usize) -> Option<Repeat> {
        let length = range.len();
        let (count, slack) = (length.checked_div(period)?, length.checked_rem(period)?);
        (count >= 2).then_some(Repeat { start: range.start, period, count, slack })
    }

    /// Every item that goes on in the same way.
    fn whole(&self) -> Range<usize> {
        self.start..self.start + self.period * self.count + self.slack
    }
}

/// Repeats that do not overlap, in order of place: the longest first, and of those with the same
/// extent the one with the shortest period. Finds every repeat of three or more stretches that no
/// other hides, and those of two where a window of the sequence tells them.
///
/// Windows of 1, 2, 4 … items are numbered by content (as suffix sorting by doubling does). Where one
/// window after another occurred last the same distance before, the sequence repeats with that period.
/// O(n log n).
pub(super) fn repeats(items: &[u32]) -> Vec<Repeat> {
    let mut found: Vec<Repeat> = Vec::new();
    let mut window = 1;
    let mut ranks: Vec<u32> = items.to_vec();
    while ranks.len() > 1 {
        let (distinct, last) = streaks(&ranks, window, &mut found);
        let longest = found.iter().map(|r| r.whole().len()).max().unwrap_or(0);
        // A longer period inside so long a repeat would be a multiple of its own.
        if distinct == ranks.len() || last == 0 || longest > items.len() / 2 {
            break;
        }
        ranks = doubled(&ranks, window);
        window *= 2;
    }
    choose(found)
}

/// Stretches of `ranks` (windows of `window` items by content) that occurred last one and the same
/// distance before. Gives the number of distinct windows, and of windows seen before.
fn streaks(ranks: &[u32], window: usize, found: &mut Vec<Repeat>) -> (usize, usize) {
    let mut latest: HashMap<u32, usize> = HashMap::new();
    let mut seen = 0;
    // The streak that is open: its first place and its distance.
    let mut open: Option<(usize, usize)> = None;
    let mut close = |open: Option<(usize, usize)>, end: usize| {
        if let Some((from, distance)) = open
            && let Some(repeat) = Repeat::of(from - distance..end + window - 1, distance)
        {
            found.push(repeat);
        }
    };
    for (at, rank) in ranks.iter().enumerate() {
        let distance = latest.insert(*rank, at).map(|before| at - before);
        seen += usize::from(distance.is_some());
        if open.map(|(_, d)| d) != distance {
            close(open, at);
            open = distance.map(|d| (at, d));
        }
    }
    close(open, ranks.len());
    (latest.len(), seen)
}

/// Windows of twice the length, by content.
fn doubled(ranks: &[u32], window: usize) -> Vec<u32> {
    let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
    let pairs = ranks.iter().zip(ranks.get(window..).unwrap_or_default());
    pairs
        .map(|(&a, &b)| {
            let next = numbers.len() as u32;
            *numbers.entry((a, b)).or_insert(next)
        })
        .collect()
}

/// Those that do not overlap; what a longer one leaves of another counts if it still repeats.
fn choose(mut found: Vec<Repeat>) -> Vec<Repeat> {
    found.sort_by_key(|r| (std::cmp::Reverse(r.whole().len()), r.period, r.start));
    let mut taken: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    let mut chosen = Vec::new();
    for repeat in found {
        let mut whole = repeat.whole();
        if let Some((_, &end)) = taken.range(..=whole.start).next_back() {
            whole.start = whole.start.max(end);
        }
        if let Some((&start, _)) = taken.range(whole.start..).next() {
            whole.end = whole.end.min(start);
        }
        let Some(rest) = (whole.start < whole.end).then(|| Repeat::of(whole, repeat.period)).flatten() else {
            continue;
        };
        let whole = rest.whole();
        taken.insert(whole.start, whole.end);
        chosen.push(rest);
    }
    chosen.sort_by_key(|r| r.start);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(usize, usize, usize, usize)> {
        let items: Vec<u32> = text.bytes().map(u32::from).collect();
        repeats(&items).into_iter().map(|r| (r.start, r.period, r.count, r.slack)).collect()
    }

    #[test]
    fn whole_periods_are_found_before_those_inside() {
        assert_eq!(of("xababababy"), [(1, 2, 4, 0)]);
        assert_eq!(of("xabcabcabz"), [(1, 3, 2, 2)]);
        assert_eq!(of("aabaabaab"), [(0, 3, 3, 0)]);
        assert_eq!(of("aaaabaaaabaaaab"), [(0, 5, 3, 0)]);
        assert_eq!(of("aaaa"), [(0, 1, 4, 0)]);
        assert_eq!(of("aabbaabbaabb"), [(0, 4, 3, 0)]);
        assert_eq!(of(""), []);
        assert_eq!(of("abcdef"), []);
        assert_eq!(of("aaaaxbcbcbc"), [(0, 1, 4, 0), (5, 2, 3, 0)]);
    }

    #[test]
    fn long_periods_and_fibonacci_words_do_not_stall() {
        let mut words = (String::from("a"), String::from("ab"));
        while words.1.len() < 20_000 {
            words = (words.1.clone(), words.1 + &words.0);
        }
        assert!(!of(&words.1).is_empty());
        let block: String = (0..700u32).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
        let found = of(&block.repeat(40));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1, found[0].2), (0, 700, 40));
    }

    /// Every repeat of at least three stretches lies in one that is found, for all short sequences.
    #[test]
    fn nothing_repeats_unseen() {
        for code in 0..3u32.pow(9) {
            let items: Vec<u32> = (0..9).map(|i| code / 3u32.pow(i) % 3).collect();
            let found = repeats(&items);
            for r in &found {
                let whole = &items[r.whole()];
                assert!(r.count >= 2 && whole.iter().zip(&whole[r.period..]).all(|(a, b)| a == b), "{items:?} {r:?}");
            }
            assert!(found.windows(2).all(|w| w[0].whole().end <= w[1].start), "{items:?}");
            for period in 1..=3 {
                for start in 0..=9 - 3 * period {
                    let part = &items[start..start + 3 * period];
                    if part.iter().zip(&part[period..]).all(|(a, b)| a == b) {
                        let touched = found.iter().any(|r| r.start < start + 3 * period && start < r.whole().end);
                        assert!(touched, "{items:?}: {part:?} of {found:?}");
                    }
                }
            }
        }
    }
}
