//! Hand-written matchers for the alternatives of which well-known pre-tokeniser patterns are made.
//!
//! A pattern is an ordered list of rules; at each position the first rule that matches wins, as in a regular expression with
//! alternatives. Unlike the regular expressions, these take time linear in the text: a megabyte of spaces neither hits a
//! backtracking limit nor hangs. Tests hold each list against the regular expression it stands for.

use super::classes::Classes;

/// One alternative of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// `'s|'t|'re|'ve|'m|'ll|'d`; with `fold`, in either case (`(?i:…)`, by which U+017F is an s too).
    Contraction { fold: bool },
    /// `[^\r\n…]?letters+`, where `…` are the classes `no_prefix`.
    Word { no_prefix: Classes, letters: Classes },
    /// ` ?body+` and then what `after` says.
    Spaced { body: Classes, after: After },
    /// `\p{N}{1,n}`
    Digits(usize),
    /// `\s*[\r\n]+`
    Newlines,
    /// `\s+(?!\S)`: white space, less its last character if a word follows.
    SpacesBeforeWord,
    /// `\s+`
    Spaces,
    /// `[^\r\n\p{L}\p{N}]?HEAD*TAIL+|[^\r\n\p{L}\p{N}]?HEAD+TAIL*`, each with `(?i:'s|'t|…)?` if `contraction`.
    CasedWord { contraction: bool },
    /// One of ``!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~`` and then `[A-Za-z]+`.
    PunctuatedWord,
}

/// What may follow the body of [`Rule::Spaced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing more.
    Nothing,
    /// `[\r\n]*`
    Newlines,
    /// `[\r\n/]*`
    NewlinesAndSlashes,
}

/// The end of the piece that begins at `at`, by the first rule that matches there; none if none does.
pub(super) fn match_at(rules: &[Rule], text: &str, at: usize) -> Option<usize> {
    rules.iter().find_map(|rule| rule.match_at(text, at))
}

impl Rule {
    fn match_at(self, text: &str, at: usize) -> Option<usize> {
        match self {
            Self::Contraction { fold } => contraction(text, at, fold),
            Self::Word { no_prefix, letters } => word(text, at, no_prefix, letters),
            Self::Spaced { body, after } => spaced(text, at, body, after),
            Self::Digits(most) => {
                let end = text[at..]
                    .char_indices()
                    .take(most)
                    .take_while(|&(_, c)| Classes::NUMBER.contains(c))
                    .last()
                    .map(|(i, c)| at + i + c.len_utf8());
                end.filter(|&end| end > at)
            }
            Self::Newlines => {
                let spaces = &text[at..run(text, at, Classes::SPACE)];
                spaces.rfind(['\r', '\n']).map(|last| at + last + 1)
            }
            Self::SpacesBeforeWord => {
                let end = run(text, at, Classes::SPACE);
                let end = if end == text.len() {
                    end
                } else {
                    at + text[at..end].char_indices().next_back().map_or(0, |(last, _)| last)
                };
                (end > at).then_some(end)
            }
            Self::Spaces => Some(run(text, at, Classes::SPACE)).filter(|&end| end > at),
            Self::CasedWord { contraction: with } => {
                cased_word(text, at).map(|end| with.then(|| contraction(text, end, true)).flatten().unwrap_or(end))
            }
            Self::PunctuatedWord => {
                let bytes = text.as_bytes();
                bytes.get(at).filter(|b| b.is_ascii_punctuation())?;
                let letters = bytes[at + 1..].iter().take_while(|b| b.is_ascii_alphabetic());
                let letters = letters.count();
                (letters > 0).then_some(at + 1 + letters)
            }
        }
    }
}

/// The end of the run of characters of `classes` that begins at `at`.
fn run(text: &str, at: usize, classes: Classes) -> usize {
    text[at..].char_indices().find(|&(_, c)| !classes.contains(c)).map_or(text.len(), |(i, _)| at + i)
}

fn first_char(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

fn contraction(text: &str, at: usize, fold: bool) -> Option<usize> {
    let mut chars = text[at..].chars();
    chars.next().filter(|&c| c == '\'')?;
    let mut letter = || {
        let c = chars.next()?;
        let folded = match c {
            '\u{17f}' if fold => 's',
            _ if fold => c.to_ascii_lowercase(),
            _ => c,
        };
        Some((folded, c.len_utf8()))
    };
    let (first, length) = letter()?;
    match first {
        's' | 't' | 'm' | 'd' => Some(at + 1 + length),
        'r' | 'v' | 'l' => {
            let (second, _) = letter()?;
            let whole = matches!((first, second), ('r' | 'v', 'e') | ('l', 'l'));
            whole.then_some(at + 3)
        }
        _ => None,
    }
}

/// Where the body of a word may begin: after a prefix character if there is one, and at `at` itself.
fn after_prefix(text: &str, at: usize, no_prefix: Classes) -> Option<usize> {
    let c = first_char(text, at)?;
    (c != '\r' && c != '\n' && !no_prefix.contains(c)).then_some(at + c.len_utf8())
}

fn word(text: &str, at: usize, no_prefix: Classes, letters: Classes) -> Option<usize> {
    let starts = [after_prefix(text, at, no_prefix), Some(at)];
    starts.into_iter().flatten().find_map(|start| {
        let end = run(text, start, letters);
        (end > start).then_some(end)
    })
}

fn spaced(text: &str, at: usize, body: Classes, after: After) -> Option<usize> {
    let start = at + usize::from(text.as_bytes().get(at) == Some(&b' '));
    let end = run(text, start, body);
    if end == start {
        return None;
    }
    let slash = match after {
        After::Nothing => return Some(end),
        After::Newlines => false,
        After::NewlinesAndSlashes => true,
    };
    let more = text.as_bytes()[end..].iter();
    let more = more.take_while(|&&b| b == b'\r' || b == b'\n' || slash && b == b'/');
    Some(end + more.count())
}

/// A word split by case: `HEAD*TAIL+` if it can be, with a prefix before without; then `HEAD+TAIL*` likewise.
fn cased_word(text: &str, at: usize) -> Option<usize> {
    let no_prefix = Classes::LETTER.or(Classes::NUMBER);
    let starts = [after_prefix(text, at, no_prefix), Some(at)];
    let starts = || starts.into_iter().flatten();
    starts().find_map(|start| lower_ended(text, start)).or_else(|| {
        starts().find_map(|start| {
            let head = run(text, start, Classes::HEAD);
            (head > start).then(|| run(text, head, Classes::TAIL))
        })
    })
}

/// `HEAD*TAIL+`: the head is as long as it can be while one character is left for the tail.
fn lower_ended(text: &str, start: usize) -> Option<usize> {
    let head = run(text, start, Classes::HEAD);
    let tail = run(text, head, Classes::TAIL);
    if tail > head {
        return Some(tail);
    }
    // Give back to the last character of the head that a tail may hold; what follows it in the head may not be in a tail.
    text[start..head]
        .char_indices()
        .rev()
        .find(|&(_, c)| Classes::TAIL.contains(c))
        .map(|(i, c)| start + i + c.len_utf8())
}
