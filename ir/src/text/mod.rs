//! The text form of graphs: readable, one statement a line, types on every value.
//!
//! ```text
//! graph {
//!   input %input_ids: i64[S]
//!   weight %embed = "model.embed_tokens.weight": q8[151936, 896]
//!   %h: f32[S, 896] = TokenEmbed(%input_ids, %embed)
//!   %q: f32[S, 448], %k: f32[S, 448] = Split(%h) { axis = 1, sizes = [448, 448] }
//!   %y: f32[S, 448] = Add(%q, %k) @cuda
//!   output logits = %y
//! }
//! ```
//!
//! - A value is `%` and its name: letters, digits, `_`, `.`, `$` and `-`, or a quoted text
//!   (`%"odd name"`). A number (`%12`) stands for a value without a name. The name of an input is
//!   the name that a caller uses; the others are for the reader.
//! - A type is a dtype and dimensions: numbers, symbols, and sums and products of them.
//! - Attributes stand in braces after the operands, every field of the operation once.
//! - `@cuda` is the writer's device wish; a wish without a name is a number (`@9`).
//! - `//` begins a comment. Line breaks are blanks, so that a long statement may be wrapped.
//!
//! [`print`](fn@print) writes the same bytes for the same graph, and [`parse`] reads them back to an equal one.
//! Reading trusts no type in the text: [`verify`](crate::verify::verify) compares them with what
//! the operations give.

mod parse;
mod print;

pub use parse::{TextError, TextErrors, parse};
pub use print::{Labels, Line, print};

use std::borrow::Cow;

/// Whether `name` may stand after `%`, `output` or `@` without quotes.
pub(crate) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_bare_byte)
}

fn is_bare_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'-')
}

/// Whether `name` reads as the number of a value without a name.
fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
}

/// Appends `text` in quotes, with `\"`, `\\`, `\n`, `\r`, `\t` and `\u{…}` for control characters.
pub(crate) fn quote(out: &mut String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// What is wrong with a text in quotes, and at which offset; none where the closing quote is missing.
pub(crate) type QuoteFault = (Option<usize>, &'static str);

/// The text up to the quote that closes it, and the offset behind that quote; `rest` begins behind the
/// opening one.
pub(crate) fn unquote(rest: &str) -> Result<(Cow<'_, str>, usize), QuoteFault> {
    let mut own: Option<String> = None;
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                return Ok(match own {
                    Some(own) => (Cow::Owned(own), at + 1),
                    None => (Cow::Borrowed(&rest[..at]), at + 1),
                });
            }
            '\n' => break,
            '\\' => {
                let own = own.get_or_insert_with(|| rest[..at].to_owned());
                let read = match chars.next().map(|(_, c)| c) {
                    Some('n') => Some('\n'),
                    Some('r') => Some('\r'),
                    Some('t') => Some('\t'),
                    Some(c @ ('"' | '\\')) => Some(c),
                    Some('u') => unicode(&mut chars),
                    _ => None,
                };
                let unknown = r#"unknown escape; known are `\"`, `\\`, `\n`, `\r`, `\t` and `\u{…}`"#;
                own.push(read.ok_or((Some(at), unknown))?);
            }
            c => {
                if let Some(own) = &mut own {
                    own.push(c);
                }
            }
        }
    }
    Err((None, "the quote does not close on its line"))
}

/// `{1f}` after `\u`.
fn unicode(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    if chars.next()?.1 != '{' {
        return None;
    }
    let mut code = 0u32;
    for _ in 0..7 {
        let c = chars.next()?.1;
        if c == '}' {
            return char::from_u32(code);
        }
        code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?;
    }
    None
}

/// Appends a name, quoted where it must be.
pub(crate) fn name(out: &mut String, name: &str) {
    if is_bare(name) {
        out.push_str(name);
    } else {
        quote(out, name);
    }
}

/// A window of `line` around the byte range `mark` and a line of carets below it, each led by
/// `indent`; long lines are cut on both sides. What both the parser and the verifier show.
pub(crate) fn snippet(line: &str, mark: std::ops::Range<usize>, indent: &str) -> String {
    const BEFORE: usize = 80;
    const AFTER: usize = 60;
    let floor = |at: usize| (0..=at.min(line.len())).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
    let (start, end) = (floor(mark.start), floor(mark.end.max(mark.start)));
    let from = if start > BEFORE { floor(start - BEFORE) } else { 0 };
    let to = floor(end.min(start + BEFORE).saturating_add(AFTER));
    let shown_end = end.min(to);
    let lead = if from > 0 { "…" } else { "" };
    let tail = if to < line.len() { "…" } else { "" };
    let blank: String = line[from..start].chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let carets = "^".repeat(line[start..shown_end].chars().count().max(1));
    format!(
        "{indent}{lead}{}{tail}\n{indent}{}{blank}{carets}",
        &line[from..to],
        if lead.is_empty() { "" } else { " " },
    )
}

/// The known name nearest to `wrong`, where one is near enough to be meant.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if wrong.len() > LONGEST {
        return None;
    }
    let lower = wrong.to_lowercase();
    known
        .filter(|k| k.len() <= LONGEST)
        .map(|k| (distance(&lower, &k.to_lowercase()), k))
        .filter(|(d, k)| *d <= 1 + k.len() / 4)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Edit distance by single insertions, deletions and replacements.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippets_mark_the_part_and_cut_long_lines() {
        assert_eq!(snippet("ab %x cd", 3..5, "  "), "  ab %x cd\n     ^^");
        assert_eq!(snippet("héé!", 5..6, ""), "héé!\n   ^");
        let long = "x".repeat(1000);
        let cut = snippet(&long, 500..503, "");
        assert!(cut.len() < 400 && cut.starts_with('…') && cut.ends_with("^^^"));
        assert_eq!(snippet("ab", 2..2, ""), "ab\n  ^");
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["Matmul", "RmsNorm", "Softmax"];
        assert_eq!(nearest("matmull", known.into_iter()), Some("Matmul"));
        assert_eq!(nearest("RMSNorm", known.into_iter()), Some("RmsNorm"));
        assert_eq!(nearest("Quux", known.into_iter()), None);
    }
}
