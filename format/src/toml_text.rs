//! Helpers for TOML as text: parsing with places, quoting, and the line reader behind the large sections.

use std::borrow::Cow;
use std::fmt::Write as _;

use toml_edit::{DocumentMut, TomlError};

use crate::error::{ErrorKind, FormatError, Result};

/// The longest text that is parsed into a document: its values take some 50 times as much memory. Frontmatter, config,
/// chat and eval are documents; the large sections have readers of their own.
pub const MAX_DOCUMENT: usize = 4 << 20;

/// Parses a document that keeps comments, key order and spelling. Errors name line and column of `text`.
pub fn parse(text: &str) -> Result<DocumentMut> {
    parse_up_to(text, MAX_DOCUMENT)
}

/// As [`parse`], with another limit.
pub(crate) fn parse_up_to(text: &str, limit: usize) -> Result<DocumentMut> {
    if text.len() > limit {
        return Err(FormatError::new(
            ErrorKind::TooLarge,
            format!("{} bytes of TOML are over the limit of {limit}", text.len()),
        )
        .cure("Shorten it"));
    }
    text.parse::<DocumentMut>().map_err(|e| syntax(&e, text))
}

/// A TOML error as an error of this crate.
fn syntax(error: &TomlError, text: &str) -> FormatError {
    syntax_at(error.message(), error.span(), text)
}

pub(crate) fn syntax_at(message: &str, span: Option<std::ops::Range<usize>>, text: &str) -> FormatError {
    let message = message.trim().replace('\n', ", ");
    let error = FormatError::new(ErrorKind::Malformed, format!("invalid TOML: {message}")).cure("Correct the line");
    match span {
        Some(span) => {
            let (line, column) = line_column(text, span.start);
            error.at(format!("line {line}, column {column}"))
        }
        None => error,
    }
}

/// Line and column, both from 1, of a byte offset; columns count characters.
pub(crate) fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let offset = offset.min(bytes.len());
    let before = &bytes[..offset];
    let line = line_of(bytes, offset);
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
    let column = String::from_utf8_lossy(&bytes[start..offset]).chars().count() + 1;
    (line, column)
}

/// The line, from 1, that holds byte `offset`.
pub(crate) fn line_of(bytes: &[u8], offset: usize) -> usize {
    let end = offset.min(bytes.len());
    bytes[..end].iter().filter(|&&b| b == b'\n').count() + 1
}

/// Appends `text` as a TOML basic string on one line: quotes, backslashes, control characters and U+007F are escaped.
pub fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `text` as a TOML basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

/// A cursor over one line of canonical TOML. Every method gives `None` for anything it does not know; the caller then
/// leaves the whole text to a full parser, so that no spelling is ever read differently here.
pub(crate) struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { rest: line }
    }

    /// Skips spaces and tabs.
    #[inline]
    pub(crate) fn space(&mut self) {
        let bytes = self.rest.as_bytes();
        let blank = bytes.iter().take_while(|&&b| b == b' ' || b == b'\t').count();
        self.rest = &self.rest[blank..];
    }

    /// Takes one ASCII character after optional space.
    #[inline]
    pub(crate) fn take(&mut self, c: u8) -> Option<()> {
        self.space();
        if self.rest.as_bytes().first() == Some(&c) {
            self.rest = &self.rest[1..];
            Some(())
        } else {
            None
        }
    }

    /// Takes digits after optional space. TOML forbids leading zeros and allows `_`: both are left to the full parser.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.space();
        let bytes = self.rest.as_bytes();
        let len = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        if len == 0 || len > 19 || (len > 1 && bytes[0] == b'0') {
            return None;
        }
        let mut value = 0u64;
        for &b in &bytes[..len] {
            value = value.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        }
        self.rest = &self.rest[len..];
        Some(value)
    }

    /// Takes a bare key after optional space.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.space();
        let len = self.rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        if len == 0 {
            return None;
        }
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(word)
    }

    /// Takes a one-line basic string: a slice of the line where it has no escapes.
    #[inline]
    pub(crate) fn text(&mut self) -> Option<Cow<'a, str>> {
        self.take(b'"')?;
        // `""` followed by a third quote opens a multi-line string.
        if self.rest.starts_with("\"\"") {
            return None;
        }
        let at = stop(self.rest.as_bytes())?;
        if self.rest.as_bytes()[at] == b'"' {
            let text = &self.rest[..at];
            self.rest = &self.rest[at + 1..];
            return Some(Cow::Borrowed(text));
        }
        let mut text = String::new();
        self.rest_of_string(&mut text)?;
        Some(Cow::Owned(text))
    }

    /// Takes what is left of a string whose quote has been taken.
    fn rest_of_string(&mut self, out: &mut String) -> Option<()> {
        loop {
            let bytes = self.rest.as_bytes();
            let at = stop(bytes)?;
            // TOML forbids control characters other than tab here: the full parser words the error.
            let len = match bytes[at] {
                b'"' => {
                    out.push_str(&self.rest[..at]);
                    self.rest = &self.rest[at + 1..];
                    return Some(());
                }
                b'\\' => {
                    out.push_str(&self.rest[..at]);
                    let (c, len) = unescape(&self.rest[at + 1..])?;
                    out.push(c);
                    at + 1 + len
                }
                b'\t' => {
                    out.push_str(&self.rest[..=at]);
                    at + 1
                }
                _ => return None,
            };
            self.rest = &self.rest[len..];
        }
    }

    /// `Some` when nothing but space and a comment is left.
    #[inline]
    pub(crate) fn end(&mut self) -> Option<()> {
        self.space();
        let rest = self.rest.as_bytes();
        let comment = || rest[0] == b'#' && rest.iter().all(|&b| (b >= 0x20 && b != 0x7f) || b == b'\t');
        (rest.is_empty() || comment()).then_some(())
    }

    /// Takes a one-line list of numbers.
    pub(crate) fn numbers(&mut self) -> Option<Vec<u64>> {
        self.take(b'[')?;
        let mut out = Vec::new();
        loop {
            if self.take(b']').is_some() {
                return Some(out);
            }
            if !out.is_empty() {
                self.take(b',')?;
            }
            out.push(self.number()?);
        }
    }
}

/// Where the first byte stands that is not simply part of a string.
#[inline]
fn stop(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20 || b == 0x7f)
}

/// The character of an escape and the bytes it takes after the backslash.
fn unescape(rest: &str) -> Option<(char, usize)> {
    let simple = |c| Some((c, 1));
    match rest.as_bytes().first()? {
        b'"' => simple('"'),
        b'\\' => simple('\\'),
        b'n' => simple('\n'),
        b't' => simple('\t'),
        b'r' => simple('\r'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        kind @ (b'u' | b'U') => {
            let len = if *kind == b'u' { 4 } else { 8 };
            let digits = rest.get(1..1 + len)?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let code = u32::from_str_radix(digits, 16).ok()?;
            Some((char::from_u32(code)?, 1 + len))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<String> {
        let mut line = Line::new(line);
        let text = line.text()?.into_owned();
        line.end()?;
        Some(text)
    }

    #[test]
    fn quoting_and_the_line_reader_are_inverse_and_agree_with_a_full_parser() {
        for c in (0..0x300u32).chain([0x2581, 0xfffd, 0x1f600, 0x10ffff]) {
            let Some(c) = char::from_u32(c) else { continue };
            let text = format!("a{c}\"{c}");
            let line = quoted(&text);
            assert_eq!(read(&line).as_deref(), Some(text.as_str()), "{line}");
            let doc = parse(&format!("k = {line}\n")).unwrap();
            assert_eq!(doc["k"].as_str(), Some(text.as_str()), "{line}");
        }
    }

    #[test]
    fn the_line_reader_declines_what_only_a_full_parser_should_read() {
        for line in [
            "\"\"\"a\"\"\"",
            "'a'",
            "\"a",
            "\"\\q\"",
            "\"\\ud800\"",
            "\"\\u12\"",
            "\"a\" # \u{1}",
            "\"a\" b",
            "\"a\u{1}\"",
            "\"\\u+123\"",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(read("\"a\" # comment").as_deref(), Some("a"));
        assert_eq!(Line::new("[1, 20,3]").numbers(), Some(vec![1, 20, 3]));
        assert_eq!(Line::new("[ ]").numbers(), Some(vec![]));
        assert_eq!(Line::new("[1 2]").numbers(), None);
        assert_eq!(Line::new("007").number(), None);
        assert_eq!(Line::new("1_000").number(), Some(1));
        assert_eq!(Line::new("99999999999999999999").number(), None);
    }

    #[test]
    fn documents_are_limited() {
        let long = format!("a = [{}]", "1,".repeat(MAX_DOCUMENT / 2));
        let error = parse(&long).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains("over the limit of 4194304"), "{error}");
        let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).unwrap_err().to_string().contains("recursion"));
    }

    #[test]
    fn syntax_errors_name_line_and_column() {
        let error = parse("a = 1\nb = = 2\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2, column 5: invalid TOML"), "{error}");
    }
}
