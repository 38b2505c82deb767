//! What `proc_macro2` and `syn` say about a source, as diagnostics.

use super::brackets;
use super::position::Positions;
use crate::program::{Code, Diagnostic, Span};
use proc_macro2::LexError;

/// The tokens of a source cannot be told.
pub fn lexical(error: &LexError, source: &str, positions: &Positions<'_>) -> Diagnostic {
    let mut span = positions.span(error.span());
    let text = positions.text(Span::new(span.start as usize, source.len()));
    let first = text.chars().next();
    span.end = span.start + first.map_or(0, char::len_utf8) as u32;
    let digit = first.is_some_and(|c| c.is_ascii_digit());
    let (code, message) = match first {
        Some('"' | '\'' | 'b' | 'c' | 'r') => (Code::Literal, "the text or character cannot be read"),
        _ if digit => (Code::Literal, "the number cannot be read"),
        _ => (Code::Syntax, "this cannot be read"),
    };
    let help = match first {
        _ if digit => "numbers are `12`, `0xff`, `1.5`, `1e-6`, each with `_` between digits and a type at the end",
        _ => "known escapes are `\\n`, `\\r`, `\\t`, `\\\\`, `\\0`, `\\\"`, `\\'`, `\\x41` and `\\u{e9}`",
    };
    Diagnostic::new(code, span, message).help(help)
}

/// The grammar is not met.
pub fn syntax(error: &syn::Error, source: &str, positions: &Positions<'_>) -> Vec<Diagnostic> {
    let end = source.trim_end().len();
    within(error, positions, Span::new(end, end)).into_iter().map(|d| placed(d, source)).collect()
}

/// What `syn` says about tokens inside brackets that end at `end`.
pub fn within(error: &syn::Error, positions: &Positions<'_>, end: Span) -> Vec<Diagnostic> {
    let one = |error: syn::Error| {
        let text = error.to_string();
        let text = text.trim_end_matches('.');
        let mut span = positions.span(error.span());
        if span.start == span.end {
            // No token: the tokens were at an end.
            span = end;
        }
        let found = positions.text(span);
        let message = match text {
            _ if is_keyword(found) && text.contains("identifier") => {
                format!("expected a name, found the word `{found}`")
            }
            "expected `:`" => "the parameter or field has no type".into(),
            _ => text.replace("unexpected end of input", "the text ends too early"),
        };
        let out = Diagnostic::new(Code::Syntax, span, message);
        match help(text, found) {
            Some(help) => out.help(help),
            None => out,
        }
    };
    error.clone().into_iter().map(one).collect()
}

/// Whether a word is one of Rust.
fn is_keyword(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_alphabetic()) && !word.is_empty();
    plain && syn::parse_str::<syn::Ident>(word).is_err()
}

/// Shows what is missing where it is missing: after the token before.
fn placed(mut error: Diagnostic, source: &str) -> Diagnostic {
    if error.message == "expected `,`" && error.span.end > error.span.start {
        let end = brackets::end_before(source, error.span.start as usize);
        error.message = "a `,` is missing".into();
        error.related.push((error.span, "before this".into()));
        error.span = Span::new(end, end);
    }
    if error.message.ends_with("expected `;`") {
        let end = brackets::end_before(source, error.span.start as usize);
        error.message = "a `;` is missing".into();
        error.related.push((error.span, "before this".into()));
        error.span = Span::new(end, end);
    }
    error
}

/// What to do about a message, where a usual slip is behind it.
fn help(text: &str, found: &str) -> Option<String> {
    if text.ends_with("expected `;`") {
        return Some("write `;` at the end of the statement".into());
    }
    if text.contains("comparison operators cannot be chained") {
        return Some("write `a < b && b < c`".into());
    }
    if is_keyword(found) && text.contains("identifier") {
        return Some(format!("`{found}` is a word of the language: choose another name"));
    }
    match text {
        "expected `:`" => return Some("write `name: Type`".into()),
        "expected `,`" => return Some("write `,` between the two; an operator may be missing".into()),
        "unexpected token" => return Some("delete it, or look for a `,` or operator that is missing before it".into()),
        _ => {}
    }
    if text.contains("expected identifier") && found.bytes().all(|b| b.is_ascii_digit()) && !found.is_empty() {
        return Some("names begin with a letter or `_`".into());
    }
    if text.contains("expected an expression") || text.contains("expected expression") {
        return Some("a value is missing here".into());
    }
    if text.contains("expected curly braces") {
        return Some("blocks are written `{ … }`, also after `if`, `else`, `for` and `while`".into());
    }
    None
}
