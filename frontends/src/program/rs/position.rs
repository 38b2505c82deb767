//! From places of `proc_macro2`, which counts lines and characters, to bytes of the source.

use crate::program::Span;
use proc_macro2::LineColumn;

/// Characters from one entry of the table to the next.
const STEP: usize = 64;

/// Where lines and characters of a source lie.
pub struct Positions<'a> {
    text: &'a str,
    /// Bytes before the text, in the whole source.
    offset: usize,
    /// The first character of each line.
    lines: Vec<u32>,
    /// The byte of every [`STEP`]th character; nothing when all are ASCII.
    bytes: Vec<u32>,
}

impl<'a> Positions<'a> {
    /// The places of a text that begins at byte `offset` of the source.
    pub fn new(text: &'a str, offset: usize) -> Self {
        let mut lines = vec![0];
        let mut bytes = Vec::new();
        for (number, (at, c)) in text.char_indices().enumerate() {
            if number % STEP == 0 {
                bytes.push(at as u32);
            }
            if c == '\n' {
                lines.push(number as u32 + 1);
            }
        }
        if text.is_ascii() {
            bytes.clear();
        }
        Positions { text, offset, lines, bytes }
    }

    /// The byte of a line (from 1) and column (from 0).
    fn byte(&self, place: LineColumn) -> usize {
        let line = self.lines.get(place.line.saturating_sub(1)).map_or(0, |&at| at as usize);
        let number = line + place.column;
        if self.bytes.is_empty() {
            return self.offset + number.min(self.text.len());
        }
        let Some(&from) = self.bytes.get(number / STEP) else { return self.offset + self.text.len() };
        let rest = &self.text[from as usize..];
        let within = rest.char_indices().nth(number % STEP).map_or(rest.len(), |(at, _)| at);
        self.offset + from as usize + within
    }

    /// The bytes of a span.
    pub fn span(&self, span: proc_macro2::Span) -> Span {
        let start = self.byte(span.start());
        Span::new(start, self.byte(span.end()).max(start))
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &'a str {
        let at = |byte: u32| (byte as usize).saturating_sub(self.offset);
        self.text.get(at(span.start)..at(span.end)).unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes() {
        let text = format!("é\r\n{}x\n", "ü".repeat(200));
        let positions = Positions::new(&text, 3);
        assert_eq!(positions.byte(LineColumn { line: 1, column: 0 }), 3);
        assert_eq!(positions.byte(LineColumn { line: 1, column: 1 }), 5);
        assert_eq!(positions.byte(LineColumn { line: 2, column: 199 }), 3 + 4 + 398);
        assert_eq!(positions.byte(LineColumn { line: 2, column: 200 }), 3 + 4 + 400);
        assert_eq!(positions.text(Span::new(407, 408)), "x");
        assert_eq!(positions.byte(LineColumn { line: 9, column: 9999 }), 3 + text.len());
        let ascii = Positions::new("ab\ncd", 0);
        assert_eq!(ascii.byte(LineColumn { line: 2, column: 1 }), 4);
    }
}
