//! Text as it is generated: ids to pieces of whole characters, and strings that stop generation.
//!
//! Neither depends on how the input is cut: pieces joined are the decoded text, and a stop string is found wherever it begins.

use crate::tokenizer::{Tokenizer, is_space};
use thiserror::Error;

/// Turns ids, one after another, into pieces of text that are always valid UTF-8: bytes of a character that is not complete
/// are held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextStream {
    held: Vec<u8>,
    skip_special: bool,
    at_start: bool,
    /// White space that is shown once more follows, of a tokenizer that trims its texts.
    spaces: String,
}

impl TextStream {
    /// A stream over a text from its beginning: the pieces joined are [`Tokenizer::decode`] of all ids.
    pub fn from_start(skip_special: bool) -> Self {
        Self { held: Vec::new(), skip_special, at_start: true, spaces: String::new() }
    }

    /// A stream over the continuation of a prompt: a space before its first word is part of it.
    pub fn continuing(skip_special: bool) -> Self {
        Self { at_start: false, ..Self::from_start(skip_special) }
    }

    /// The text that becomes complete with the next id, often none. Bytes that no following byte can complete become U+FFFD.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        if self.skip_special && tokenizer.is_special(id) {
            return String::new();
        }
        let bytes = tokenizer.token_bytes(id);
        let mut bytes = bytes.as_ref();
        if tokenizer.trims() {
            self.held.extend_from_slice(bytes);
            let text = self.take_complete();
            return self.trimmed(text);
        }
        if self.at_start && !bytes.is_empty() {
            self.at_start = false;
            if tokenizer.decodes_leading_space() {
                bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
        }
        self.held.extend_from_slice(bytes);
        self.take_complete()
    }

    /// What is left at the end: U+FFFD if a character stayed incomplete.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        match rest.is_empty() {
            true => rest,
            false => std::mem::take(&mut self.spaces) + &rest,
        }
    }

    /// The text without white space before the first word, and without that at its end, which may be the last.
    fn trimmed(&mut self, mut text: String) -> String {
        if self.at_start {
            text = text.trim_start_matches(is_space).to_owned();
        }
        let end = text.trim_end_matches(is_space).len();
        if end == 0 {
            self.spaces.push_str(&text);
            return String::new();
        }
        self.at_start = false;
        let after = text.split_off(end);
        std::mem::replace(&mut self.spaces, after) + &text
    }

    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = done + invalid.len() == self.held.len();
            if invalid.is_empty() || at_end && may_be_completed(invalid) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            done += invalid.len();
        }
        self.held.drain(..done);
        text
    }
}

/// True if more bytes could make a character of these.
fn may_be_completed(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// A stop string may not be empty: it would stop before the first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stop string {index} is empty; leave it out")]
pub struct EmptyStop {
    /// Its place in the list.
    pub index: usize,
}

/// Finds stop strings in a stream of text, and lets no part of one through.
///
/// The stop string that ends first is taken, the longest of several that end at the same place.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<Stop>,
    /// Text that may be the beginning of a stop string.
    held: String,
    stopped: Option<usize>,
}

#[derive(Clone, Debug)]
struct Stop {
    text: Vec<u8>,
    /// For each length of a matched beginning, the length of the longest shorter beginning that is also its end
    /// (Knuth, Morris and Pratt).
    fallback: Vec<usize>,
    matched: usize,
}

/// What a piece of text brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOutcome {
    /// Text that can be shown.
    pub text: String,
    /// The stop string that was found, by its place in the list. Nothing is let through after it.
    pub stopped: Option<usize>,
}

impl StopMatcher {
    /// A matcher for these strings; none is well. Errors: one is empty.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, EmptyStop> {
        let stops = stops.into_iter().enumerate().map(|(index, stop)| {
            let text = stop.into().into_bytes();
            match text.is_empty() {
                true => Err(EmptyStop { index }),
                false => Ok(Stop::new(text)),
            }
        });
        Ok(Self { stops: stops.collect::<Result<_, _>>()?, held: String::new(), stopped: None })
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, piece: &str) -> StopOutcome {
        if self.stopped.is_some() {
            return StopOutcome { text: String::new(), stopped: self.stopped };
        }
        for (at, byte) in piece.bytes().enumerate() {
            let mut longest: Option<(usize, usize)> = None;
            for (index, stop) in self.stops.iter_mut().enumerate() {
                let length = stop.text.len();
                if stop.step(byte) && longest.is_none_or(|(_, longest)| longest < length) {
                    longest = Some((index, length));
                }
            }
            if let Some((index, length)) = longest {
                let mut text = std::mem::take(&mut self.held);
                let end = text.len() + at + 1;
                text.push_str(piece);
                text.truncate(end - length);
                self.stopped = Some(index);
                return StopOutcome { text, stopped: self.stopped };
            }
        }
        self.held.push_str(piece);
        let kept = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - kept);
        StopOutcome { text: std::mem::replace(&mut self.held, rest), stopped: None }
    }

    /// What was held back, when the text ends without a stop string; empty if one was found.
    pub fn finish(&mut self) -> String {
        for stop in &mut self.stops {
            stop.matched = 0;
        }
        std::mem::take(&mut self.held)
    }
}

impl Stop {
    fn new(text: Vec<u8>) -> Self {
        let mut fallback = vec![0; text.len() + 1];
        let mut length = 0;
        for at in 1..text.len() {
            while length > 0 && text[at] != text[length] {
                length = fallback[length];
            }
            length += usize::from(text[at] == text[length]);
            fallback[at + 1] = length;
        }
        Self { text, fallback, matched: 0 }
    }

    /// Takes one byte; true if the string ends with it.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text[self.matched] != byte {
            self.matched = self.fallback[self.matched];
        }
        self.matched += usize::from(self.text[self.matched] == byte);
        let found = self.matched == self.text.len();
        if found {
            self.matched = self.fallback[self.matched];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopMatcher::new(stops.iter().copied()).unwrap();
        let mut out = String::new();
        for piece in pieces {
            let outcome = matcher.push(piece);
            out.push_str(&outcome.text);
            if outcome.stopped.is_some() {
                assert_eq!(matcher.push("more").text, "");
                assert_eq!(matcher.finish(), "");
                return (out, outcome.stopped);
            }
        }
        out.push_str(&matcher.finish());
        (out, None)
    }

    #[test]
    fn stops_are_found_across_pieces() {
        assert_eq!(run(&["<end>"], &["hello <e", "nd", "> there"]), ("hello ".into(), Some(0)));
        assert_eq!(run(&["<end>"], &["hello <e", "nx>"]), ("hello <enx>".into(), None));
        assert_eq!(run(&["<end>"], &["hello <en"]), ("hello <en".into(), None));
        assert_eq!(run(&["aab"], &["aaa", "ab", "c"]), ("aa".into(), Some(0)));
        assert_eq!(run(&["é"], &["caf", "é!"]), ("caf".into(), Some(0)));
        assert_eq!(run(&[], &["a", "b"]), ("ab".into(), None));
        assert_eq!(run(&["x"], &["x"]), (String::new(), Some(0)));
    }

    #[test]
    fn the_first_to_end_wins_and_then_the_longest() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), ("xa".into(), Some(1)));
        assert_eq!(run(&["b", "ab"], &["xab"]), ("x".into(), Some(1)));
    }

    #[test]
    fn text_is_held_only_while_it_may_be_a_stop() {
        let mut matcher = StopMatcher::new(["\n\nQ:", "END"]).unwrap();
        assert_eq!(matcher.push("a\n").text, "a");
        assert_eq!(matcher.push("b E").text, "\nb ");
        assert_eq!(matcher.push("N").text, "");
        assert_eq!(matcher.push("E").text, "EN");
        assert_eq!(matcher.finish(), "E");
    }

    #[test]
    fn an_empty_stop_is_an_error() {
        assert_eq!(StopMatcher::new(["a", ""]).unwrap_err(), EmptyStop { index: 1 });
    }

    /// Every way of cutting a text into two or three pieces gives what the whole gives, which is what a plain search finds.
    #[test]
    fn cutting_changes_nothing() {
        let stops = ["aba", "bab", "cc", "é\u{301}"];
        for text in ["", "aabcab", "ababab", "abcacc", "cacabbab", "é\u{301}x", "éé\u{301}", "bcab"] {
            let whole = run(&stops, &[text]);
            let first_end =
                stops.iter().enumerate().filter_map(|(i, s)| text.find(s).map(|at| (at + s.len(), at, i))).min();
            let expected = match first_end {
                Some((_, at, index)) => (text[..at].to_owned(), Some(index)),
                None => (text.to_owned(), None),
            };
            assert_eq!(whole, expected, "{text}");
            let cuts: Vec<usize> = (0..=text.len()).filter(|&i| text.is_char_boundary(i)).collect();
            for &a in &cuts {
                for &b in cuts.iter().filter(|&&b| b >= a) {
                    assert_eq!(run(&stops, &[&text[..a], &text[a..b], &text[b..]]), whole);
                }
            }
        }
    }
}
