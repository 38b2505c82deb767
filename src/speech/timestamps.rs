//! Times in a text: which tokens may follow, and the segments that they cut. The rules are those of `transformers`'
//! `WhisperTimeStampLogitsProcessor` and `_retrieve_segment`.

use std::ops::Range;

/// Seconds of a step from one time to the next.
const STEP: f64 = 0.02;
/// Seconds of a frame.
const FRAME: f64 = 0.01;
/// Frames of a step.
const FRAMES: usize = 2;

/// Which tokens may be written where times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeRules {
    /// The token of the time 0; all from here on are times.
    pub first: u32,
    /// The token that ends a text; below it are words.
    pub end: u32,
    /// The largest time that a text may begin with, in steps.
    pub latest_start: Option<u32>,
}

impl TimeRules {
    /// Takes the logits of tokens away that must not follow `tokens`, what has been written so far.
    pub fn restrict(&self, tokens: &[u32], logits: &mut [f32]) {
        let size = logits.len();
        let at = |n: u32| (n as usize).min(size);
        let (first, end) = (at(self.first), at(self.end));
        let forbid = |logits: &mut [f32], range: Range<usize>| {
            if let Some(part) = logits.get_mut(range) {
                part.fill(f32::NEG_INFINITY);
            }
        };
        // The token before the first time says that there are none.
        forbid(logits, first.saturating_sub(1)..first);
        let is_time = |id: &u32| *id >= self.first;
        let last = tokens.last().is_some_and(is_time);
        let before = tokens.len() < 2 || is_time(&tokens[tokens.len() - 2]);
        // Times come in pairs, except before the end.
        match (last, before) {
            (true, true) => forbid(logits, first..size),
            (true, false) => forbid(logits, 0..end),
            (false, _) => {}
        }
        // They do not decrease, and a segment is longer than nothing.
        if let Some(&latest) = tokens.iter().rev().find(|id| is_time(id)) {
            let least = if last && !before { latest } else { latest + 1 };
            forbid(logits, first..at(least));
        }
        if tokens.is_empty() {
            forbid(logits, 0..first);
            if let Some(latest) = self.latest_start {
                forbid(logits, at(self.first.saturating_add(latest).saturating_add(1))..size);
            }
        }
        // A time where all of them together are likelier than any word.
        let (words, times) = logits.split_at_mut(first);
        let likeliest = words.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if log_sum_exp(times) > likeliest {
            words.fill(f32::NEG_INFINITY);
        }
    }
}

fn log_sum_exp(values: &[f32]) -> f32 {
    let top = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    match top == f32::NEG_INFINITY {
        true => top,
        false => top + values.iter().map(|x| f64::from(x - top).exp()).sum::<f64>().ln() as f32,
    }
}

/// A part of a window's text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Seconds from the beginning of the sound.
    pub start: f64,
    /// See `start`.
    pub end: f64,
    /// Its tokens, times included.
    pub tokens: Range<usize>,
}

/// The segments of a window of `frames` frames that begins at frame `seek`, and how many frames they take: the next window
/// begins behind them. `first` is the token of the time 0.
pub(super) fn split(tokens: &[u32], first: u32, seek: usize, frames: usize) -> (Vec<Piece>, usize) {
    let offset = seek as f64 * STEP / FRAMES as f64;
    let is_time = |i: usize| tokens.get(i).is_some_and(|&id| id >= first);
    // A word may stand where times are not asked for.
    let time = |i: usize| tokens.get(i).map_or(0, |id| id.saturating_sub(first));
    let piece = |start, end, tokens| Piece {
        start: offset + f64::from(start) * STEP,
        end: offset + f64::from(end) * STEP,
        tokens,
    };
    let count = tokens.len();
    let alone = count >= 2 && !is_time(count - 2) && is_time(count - 1);
    let mut cuts: Vec<usize> = (1..count).filter(|&i| is_time(i - 1) && is_time(i)).collect();
    let Some(last) = cuts.last_mut() else {
        let whole = (frames as f32 * FRAME as f32 / STEP as f32) as u32;
        let spoken = (0..count).rev().find(|&i| is_time(i)).map(time).filter(|&t| t > 0);
        return (vec![piece(0, spoken.unwrap_or(whole), 0..count)], frames);
    };
    if alone {
        cuts.push(count);
    } else {
        // The time behind the last pair belongs to it: what follows is not finished.
        *last += 1;
    }
    let mut pieces = Vec::with_capacity(cuts.len());
    let mut from = 0;
    for (i, &to) in cuts.iter().enumerate() {
        let end = if i + 1 < cuts.len() || alone { to - 1 } else { to - 2 };
        pieces.push(piece(time(from), time(end), from..to));
        from = to;
    }
    // A single time at the end says that nothing is spoken behind it.
    let taken = if alone { frames } else { time(from - 2) as usize * FRAMES };
    (pieces, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: TimeRules = TimeRules { first: 6, end: 4, latest_start: Some(1) };

    /// The ids that stay possible, with even logits but for `likely`.
    fn allowed(tokens: &[u32], likely: &[(usize, f32)]) -> Vec<usize> {
        let mut logits = vec![0f32; 11];
        likely.iter().for_each(|&(id, x)| logits[id] = x);
        RULES.restrict(tokens, &mut logits);
        (0..11).filter(|&i| logits[i] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn times_come_in_pairs_and_grow() {
        // The first is a time, and an early one.
        assert_eq!(allowed(&[], &[(0, 9.0)]), [6, 7]);
        // Then a word.
        assert_eq!(allowed(&[6], &[]), [0, 1, 2, 3, 4]);
        // Words, or a later time.
        assert_eq!(allowed(&[6, 1], &[(1, 9.0)]), [0, 1, 2, 3, 4, 7, 8, 9, 10]);
        // All times together are likelier than a word.
        assert_eq!(allowed(&[6, 1], &[]), [7, 8, 9, 10]);
        // The same time again, a later one, or the end.
        assert_eq!(allowed(&[6, 1, 8], &[(4, 9.0)]), [4, 8, 9, 10]);
        assert_eq!(allowed(&[6, 1, 8, 8], &[]), [0, 1, 2, 3, 4]);
        assert_eq!(allowed(&[6, 1, 8, 8, 2], &[(1, 9.0)]), [0, 1, 2, 3, 4, 9, 10]);
        // Ids past the vocabulary are none.
        let mut short = vec![0f32; 3];
        RULES.restrict(&[], &mut short);
        assert!(short.iter().all(|x| *x == f32::NEG_INFINITY));
    }

    fn cut(tokens: &[u32]) -> (Vec<(f64, f64, Range<usize>)>, usize) {
        let (pieces, taken) = split(tokens, 100, 50, 200);
        let rounded = |x: f64| (x * 1e6).round() / 1e6;
        (pieces.into_iter().map(|p| (rounded(p.start), rounded(p.end), p.tokens)).collect(), taken)
    }

    #[test]
    fn windows_are_cut_at_pairs_of_times() {
        // No time at all, and a last one that stands alone.
        assert_eq!(cut(&[1, 2]), (vec![(0.5, 2.5, 0..2)], 200));
        assert_eq!(cut(&[100, 1, 130]), (vec![(0.5, 1.1, 0..3)], 200));
        assert_eq!(cut(&[]), (vec![(0.5, 2.5, 0..0)], 200));
        // A pair in the middle and a single time at the end.
        let both = vec![(0.5, 1.1, 0..3), (1.1, 1.5, 3..6)];
        assert_eq!(cut(&[100, 1, 130, 130, 2, 150]), (both, 200));
        // A pair at the end: the next window begins there.
        assert_eq!(cut(&[100, 1, 130, 130]), (vec![(0.5, 1.1, 0..4)], 60));
        // What follows the last pair is not finished, and is said again in the next window.
        assert_eq!(cut(&[100, 1, 130, 130, 2]), (vec![(0.5, 1.1, 0..4)], 60));
        let two = vec![(0.5, 1.1, 0..3), (1.1, 1.5, 3..7)];
        assert_eq!(cut(&[100, 1, 130, 130, 2, 150, 151, 7]), (two, 100));
    }
}
