//! The words of the text form: names, quotes, types, attribute values; and errors with their place.

use super::{Key, Label, MAX_ERRORS, Noted, Parsed, Parser, TextError};
use crate::dim::MAX_SYMBOL;
use crate::ops::MAX_RANK;
use crate::text::{is_bare_byte, is_number, nearest, snippet, unquote};
use crate::{DType, Dim, Shape, TensorType};
use std::borrow::Cow;
use std::ops::Range;

/// The most characters of one message; what it quotes may be long.
const MAX_MESSAGE: usize = 500;
/// The most bytes that one dimension may take: more than 64 terms of 16 factors, the most that a sum has.
const MAX_DIM: usize = 64 * 18 * (MAX_SYMBOL + 1);
/// The most bytes of a type that is kept for the next time …
const MAX_KNOWN: usize = 64;
/// … and the most types kept: graphs have few.
const MAX_KNOWN_TYPES: usize = 1024;

impl<'a> Parser<'a> {
    /// The text of one attribute: up to `,` or `}` outside brackets and quotes.
    pub(super) fn field_text(&mut self) -> Parsed<(&'a str, Range<usize>)> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut bracket = false;
        let mut quoted = false;
        while let Some(&b) = bytes.get(self.at) {
            match b {
                b'\\' if quoted => self.at += 1,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' => bracket = true,
                b']' => bracket = false,
                b',' if !bracket => break,
                b'}' => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(bytes.len());
        let value = self.text[start..self.at].trim_end();
        let span = start..start + value.len();
        if value.is_empty() {
            return self.fail(start..start + 1, "expected the value of the attribute");
        }
        Ok((value, span))
    }

    /// `%name`, `%"any name"` or `%12`.
    pub(super) fn label(&mut self) -> Parsed<Label<'a>> {
        self.skip_blank();
        let start = self.at;
        self.expect(b'%', "a value such as `%x`")?;
        if self.peek() == Some(b'"') {
            let name = self.quoted()?;
            return Ok((Key::Name(name), start..self.at));
        }
        let word = self.word();
        if word.is_empty() {
            return self
                .fail(start..start + 1, "expected a name after `%`; a name with other characters stands in quotes");
        }
        let key = if is_number(word) { Key::Number(word) } else { Key::Name(Cow::Borrowed(word)) };
        Ok((key, start..self.at))
    }

    pub(super) fn plain_name(&mut self, what: &str) -> Parsed<Cow<'a, str>> {
        if self.peek() == Some(b'"') {
            return self.quoted();
        }
        let start = self.at;
        let word = self.word();
        if word.is_empty() {
            return self.fail(start..start + 1, format!("expected {what}, bare or in quotes"));
        }
        Ok(Cow::Borrowed(word))
    }

    /// A text in quotes; a line break inside is an error.
    pub(super) fn quoted(&mut self) -> Parsed<Cow<'a, str>> {
        self.expect(b'"', "a name in quotes")?;
        let start = self.at;
        let rest: &'a str = &self.text[start..];
        match unquote(rest) {
            Ok((text, end)) => {
                self.at = start + end;
                Ok(text)
            }
            Err((None, cause)) => self.fail(start - 1..start, cause),
            Err((Some(at), cause)) => self.fail(start + at..start + at + 1, cause),
        }
    }

    /// `: f32[S, 8]`.
    pub(super) fn colon_type(&mut self) -> Parsed<TensorType> {
        self.expect(b':', "`:` and the type, for example `: f32[S, 8]`")?;
        self.skip_blank();
        let start = self.at;
        let near = &self.text.as_bytes()[start..self.text.len().min(start + MAX_KNOWN)];
        if let Some(end) = near.iter().position(|&b| b == b']')
            && let Some(known) = self.types.get(&near[..=end])
        {
            self.at = start + end + 1;
            return Ok(known.clone());
        }
        let word = self.word();
        let Some(dtype) = DType::from_name(word) else {
            let hint = nearest(word, DType::ALL.iter().map(|d| d.name()))
                .map(|k| format!("; did you mean `{k}`?"))
                .unwrap_or_default();
            return self.fail(start..self.at.max(start + 1), format!("`{word}` is no element type{hint}"));
        };
        self.expect(b'[', "`[` and the dimensions")?;
        let mut dims = Vec::new();
        loop {
            self.skip_blank();
            if self.peek() == Some(b']') && dims.is_empty() {
                self.at += 1;
                break;
            }
            let from = self.at;
            let bytes = self.text.as_bytes();
            let end =
                bytes[from..].iter().take(MAX_DIM + 1).position(|b| matches!(b, b',' | b']' | b'\n' | b'%' | b'='));
            let Some(end) = end.map(|n| from + n) else {
                return self.fail(
                    from..from + 1,
                    format!("expected a dimension of at most {MAX_DIM} characters and `,` or `]`"),
                );
            };
            let text = self.text[from..end].trim_end();
            match text.parse::<Dim>() {
                Ok(dim) => dims.push(dim),
                Err(message) => return self.fail(from..from + text.len().max(1), message),
            }
            if dims.len() > MAX_RANK {
                return self.fail(from..end, format!("a value has at most {MAX_RANK} dimensions"));
            }
            self.at = end;
            match bytes.get(end) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return self.fail(end..end + 1, "expected `,` or `]`"),
            }
        }
        let ty = TensorType::new(dtype, Shape(dims));
        if self.at - start <= MAX_KNOWN && self.types.len() < MAX_KNOWN_TYPES {
            self.types.insert(&self.text.as_bytes()[start..self.at], ty.clone());
        }
        Ok(ty)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Blanks, line breaks and comments.
    pub(super) fn skip_blank(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            if bytes.get(self.at) != Some(&b'/') || bytes.get(self.at + 1) != Some(&b'/') {
                return;
            }
            while bytes.get(self.at).is_some_and(|b| *b != b'\n') {
                self.at += 1;
            }
        }
    }

    /// The bare name at the cursor; empty where there is none.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_blank();
        let start = self.at;
        while self.peek().is_some_and(is_bare_byte) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    pub(super) fn expect(&mut self, byte: u8, what: &str) -> Parsed<()> {
        self.skip_blank();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        let end = self.at + self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        self.fail(self.at..end, format!("expected {what}"))
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        self.skip_blank();
        let start = self.at;
        if self.word() == word {
            return Ok(());
        }
        self.fail(start..self.at.max(start), format!("expected `{word} {{`"))
    }

    pub(super) fn error(&mut self, span: Range<usize>, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            let mut message = message.into();
            if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
                message.truncate(end);
                message.push('…');
            }
            self.errors.push((span, message));
        }
    }

    pub(super) fn fail<T>(&mut self, span: Range<usize>, message: impl Into<String>) -> Parsed<T> {
        self.error(span, message);
        Err(Noted)
    }

    pub(super) fn fail_now(&mut self, span: Range<usize>, message: String) -> Noted {
        self.error(span, message);
        Noted
    }
}

/// Turns byte ranges into lines, columns and snippets, in one pass.
pub(super) fn located(text: &str, mut errors: Vec<(Range<usize>, String)>) -> Vec<TextError> {
    errors.sort_by_key(|(span, _)| span.start);
    let mut line = 1;
    let mut line_start = 0;
    let mut out = Vec::with_capacity(errors.len());
    for (span, message) in errors {
        let start = span.start.min(text.len());
        for (i, b) in text.as_bytes()[line_start..start].iter().enumerate().rev() {
            if *b == b'\n' {
                line += text.as_bytes()[line_start..line_start + i + 1].iter().filter(|b| **b == b'\n').count();
                line_start += i + 1;
                break;
            }
        }
        let end = text[line_start..].find('\n').map_or(text.len(), |n| line_start + n);
        let shown = text[line_start..end].trim_end_matches('\r');
        let from = start - line_start;
        let to = span.end.saturating_sub(line_start).clamp(from, shown.len().max(from));
        out.push(TextError {
            line,
            column: shown.get(..from).unwrap_or(shown).chars().count() + 1,
            message,
            snippet: snippet(shown, from..to, "  "),
        });
    }
    out
}
