//! Tokens that are matched verbatim before merges: finding them in a text, leftmost first and longest first among those.

use super::TokenizerError;
use super::prefixes::Prefixes;

/// A token that is matched verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verbatim {
    pub(super) id: u32,
    pub(super) text: String,
    /// Matched only where special tokens are asked for.
    pub(super) special: bool,
    /// Takes the white space before it along.
    pub(super) lstrip: bool,
    /// Takes the white space after it along.
    pub(super) rstrip: bool,
}

impl AsRef<str> for Verbatim {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Finds verbatim tokens.
#[derive(Clone, Debug)]
pub(super) struct Matcher(Prefixes<Verbatim>);

/// The longest verbatim token: finding one takes time proportional to its length at every place of the text.
pub(super) const MAX_VERBATIM: usize = 1024;

impl Matcher {
    /// A matcher for these tokens. Of two with one text the first given is kept; empty ones are left out.
    /// Errors: a token is longer than [`MAX_VERBATIM`] bytes.
    pub(super) fn new(tokens: Vec<Verbatim>) -> Result<Self, TokenizerError> {
        if let Some(long) = tokens.iter().find(|token| token.text.len() > MAX_VERBATIM) {
            return Err(TokenizerError::TooLong {
                what: format!("added token {}", long.id),
                bytes: long.text.len(),
                limit: MAX_VERBATIM,
            });
        }
        Ok(Self(Prefixes::new(tokens)))
    }

    /// Cuts `text` into stretches without verbatim tokens, given to `plain` (never empty), and tokens, whose ids are given to
    /// `token`, in order. Both get `state`. Special tokens count as plain text unless `special`.
    pub(super) fn split<S, E>(
        &self,
        text: &str,
        special: bool,
        state: &mut S,
        mut plain: impl FnMut(&mut S, &str) -> Result<(), E>,
        mut token: impl FnMut(&mut S, u32),
    ) -> Result<(), E> {
        let mut done = 0;
        let mut at = 0;
        while at < text.len() {
            let Some(found) = self.longest_at(text.as_bytes(), at, special) else {
                at += 1;
                continue;
            };
            let before = &text[done..at];
            let before = if found.lstrip { before.trim_end() } else { before };
            if !before.is_empty() {
                plain(state, before)?;
            }
            token(state, found.id);
            at += found.text.len();
            if found.rstrip {
                at = text.len() - text[at..].trim_start().len();
            }
            done = at;
        }
        if done < text.len() {
            plain(state, &text[done..])?;
        }
        Ok(())
    }

    /// The token of exactly this text.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.0.get(text).map(|token| token.id)
    }

    fn longest_at<'a>(&'a self, text: &[u8], at: usize, special: bool) -> Option<&'a Verbatim> {
        let mut longest = None;
        self.0.of(&text[at..], |token| {
            if special || !token.special {
                longest = Some(token);
            }
        });
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32, text: &str) -> Verbatim {
        Verbatim { id, text: text.to_owned(), special: false, lstrip: false, rstrip: false }
    }

    fn split(matcher: &Matcher, text: &str, special: bool) -> Vec<String> {
        let mut out = Vec::new();
        matcher
            .split(
                text,
                special,
                &mut out,
                |out, plain| {
                    out.push(plain.to_owned());
                    Ok::<_, ()>(())
                },
                |out, id| out.push(format!("#{id}")),
            )
            .unwrap();
        out
    }

    #[test]
    fn the_leftmost_and_longest_wins() {
        let matcher = Matcher::new(vec![token(1, "<a"), token(2, "<a>b"), token(3, ">"), token(4, "é")]).unwrap();
        assert_eq!(split(&matcher, "x<a>bé>", true), ["x", "#2", "#4", "#3"]);
        assert_eq!(split(&matcher, "<a>c<", true), ["#1", "#3", "c<"]);
        assert_eq!(split(&matcher, "", true), Vec::<String>::new());
        assert_eq!(matcher.find("<a"), Some(1));
        assert_eq!(matcher.find("<"), None);
    }

    #[test]
    fn special_tokens_are_text_unless_asked_for() {
        let matcher = Matcher::new(vec![Verbatim { special: true, ..token(1, "<end>") }, token(2, "<end")]).unwrap();
        assert_eq!(split(&matcher, "a<end>", true), ["a", "#1"]);
        assert_eq!(split(&matcher, "a<end>", false), ["a", "#2", ">"]);
    }

    #[test]
    fn strips_take_white_space_along() {
        let matcher = Matcher::new(vec![Verbatim { lstrip: true, rstrip: true, ..token(1, "<m>") }]).unwrap();
        assert_eq!(split(&matcher, "a \t<m>\n <m> b", true), ["a", "#1", "#1", "b"]);
        assert_eq!(split(&matcher, "  <m>", true), ["#1"]);
    }

    #[test]
    fn a_token_too_long_is_refused() {
        let error = Matcher::new(vec![token(9, &"x".repeat(MAX_VERBATIM + 1))]).unwrap_err();
        assert!(error.to_string().contains("added token 9"), "{error}");
    }
}
