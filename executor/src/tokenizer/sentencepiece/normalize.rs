//! SentencePiece's normaliser: a map of characters, then spaces.

use super::super::SPACE_SIGN;
use super::super::charsmap::Charsmap;
use super::super::prefixes::Prefixes;
use super::user_length;

/// What is done to text before it is cut.
#[derive(Debug)]
pub(super) struct Normalizer {
    pub(super) charsmap: Option<Charsmap>,
    /// A space before the text.
    pub(super) prefix: bool,
    /// Spaces at the ends and repeated ones go.
    pub(super) single: bool,
}

impl Normalizer {
    /// The normalised text, with `▁` for spaces; empty for a text without anything but spaces, where these go.
    pub(super) fn apply(&self, text: &str, user: &Prefixes<String>) -> String {
        let mut rest = text;
        while self.single && !rest.is_empty() {
            let (mapped, length) = self.first(rest, user);
            if mapped != " " {
                break;
            }
            rest = &rest[length..];
        }
        let mut out = String::with_capacity(rest.len() + rest.len() / 4 + SPACE_SIGN.len_utf8());
        if rest.is_empty() {
            return out;
        }
        if self.prefix {
            out.push(SPACE_SIGN);
        }
        let mut spaced = self.single;
        while !rest.is_empty() {
            let (mapped, length) = self.first(rest, user);
            let mapped = if spaced { mapped.trim_start_matches(' ') } else { mapped };
            if !mapped.is_empty() {
                out.extend(mapped.chars().map(|c| if c == ' ' { SPACE_SIGN } else { c }));
                spaced = self.single && mapped.ends_with(' ');
            }
            rest = &rest[length..];
        }
        if self.single {
            out.truncate(out.trim_end_matches(SPACE_SIGN).len());
        }
        out
    }

    /// What the beginning of a text becomes, and how long that beginning is. A user-defined piece stays as it is.
    fn first<'a>(&'a self, text: &'a str, user: &Prefixes<String>) -> (&'a str, usize) {
        if let Some(length) = user_length(user, text) {
            return (&text[..length], length);
        }
        if let Some((length, mapped)) = self.charsmap.as_ref().and_then(|map| map.longest(text))
            && text.is_char_boundary(length)
        {
            return (mapped, length);
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (&text[..length], length)
    }
}
