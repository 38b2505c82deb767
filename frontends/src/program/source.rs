//! What both readers ask of a source before they read it, and their limits.

use super::ast::Span;
use super::codes::Code;
use super::diagnostic::Diagnostic;

/// The longest source, in bytes.
pub const MAX_SOURCE: usize = 4 << 20;

/// How deep brackets, blocks, prefix operators, types and patterns may nest.
pub const MAX_NESTING: usize = 256;

/// How many operators, calls and fields may follow each other in one expression.
pub const MAX_CHAIN: usize = 10_000;

/// How many mistakes of a source are collected: nobody reads more, and a hostile source has millions.
pub const MAX_ERRORS: usize = 200;

/// The byte order mark that some editors write first.
pub const MARK: char = '\u{feff}';

/// Checks length and characters; the byte where the text begins, which is after a byte order mark.
///
/// # Errors
/// A source that is too long, or that has characters which no text has.
pub fn check(source: &str) -> Result<usize, Vec<Diagnostic>> {
    if source.len() > MAX_SOURCE {
        let message = format!("the program has {} bytes; the most is {MAX_SOURCE}", source.len());
        let cure = "is this a program? Data belongs into the config or into tensors";
        return Err(vec![Diagnostic::new(Code::Nesting, Span::new(0, 0), message).help(cure)]);
    }
    let begin = if source.starts_with(MARK) { MARK.len_utf8() } else { 0 };
    let mut errors = Vec::new();
    for (at, c) in source.char_indices().filter(|(_, c)| is_odd(*c)) {
        if at == 0 || errors.len() >= 8 {
            continue;
        }
        let message = format!("{} cannot stand in a program", describe(c));
        let error = Diagnostic::new(Code::Syntax, Span::new(at, at + c.len_utf8()), message);
        errors.push(error.help(format!("delete it; inside a text, write `\\u{{{:x}}}`", u32::from(c))));
    }
    if errors.is_empty() { Ok(begin) } else { Err(errors) }
}

/// Runs a reader on a thread whose stack holds `bytes`. Only what is used takes memory.
///
/// # Errors
/// The system gives no such thread.
pub fn with_stack<T: Send>(bytes: usize, read: impl FnOnce() -> T + Send) -> Result<T, Vec<Diagnostic>> {
    on_stack(bytes, "reader", read).map_err(|error| {
        let message = format!("the reader gets no stack of {} MiB: {error}", bytes >> 20);
        vec![Diagnostic::new(Code::Nesting, Span::default(), message)]
    })
}

/// Runs `f` on a thread of this name whose stack holds `bytes`; a panic goes on in the caller.
///
/// # Errors
/// The system gives no such thread.
pub fn on_stack<T: Send>(bytes: usize, name: &str, f: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.into()).stack_size(bytes).spawn_scoped(scope, f)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Whether no program has this character: controls other than white space, and marks that hide or turn text.
fn is_odd(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || turns_text(c) || c == MARK
}

/// Whether a character changes the direction of the text around it, so that it reads differently than it is.
pub fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A character in words: as it is where it can be seen, with its number.
pub fn describe(c: char) -> String {
    let number = u32::from(c);
    match c {
        '\0' => "the character NUL".into(),
        MARK => "a byte order mark inside the text".into(),
        c if is_odd(c) || c.is_whitespace() => format!("the character U+{number:04X}"),
        c if c.is_ascii() => format!("`{c}`"),
        c => format!("`{c}` (U+{number:04X})"),
    }
}

/// What a character that word processors write stands for: quotes, dashes, signs.
pub fn plain_form(c: char) -> Option<&'static str> {
    Some(match c {
        '“' | '”' | '„' | '«' | '»' | '″' => "\"",
        '‘' | '’' | '‚' | '′' => "'",
        '–' | '—' | '−' => "-",
        '×' | '∗' | '·' => "*",
        '÷' | '∕' => "/",
        '≤' => "<=",
        '≥' => ">=",
        '≠' => "!=",
        '→' => "->",
        '…' => "..",
        '（' => "(",
        '）' => ")",
        '，' => ",",
        '；' => ";",
        '：' => ":",
        '\u{a0}' => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_skipped_and_controls_refused() {
        assert_eq!(check("\u{feff}fn"), Ok(3));
        assert_eq!(check("a\r\n\tb"), Ok(0));
        let errors = check("a\0b\u{feff}\u{202e}").unwrap_err();
        assert_eq!(errors.len(), 3);
        assert_eq!(errors[0].message, "the character NUL cannot stand in a program");
        assert_eq!(errors[0].span, Span::new(1, 2));
    }

    #[test]
    fn long_sources_are_refused() {
        assert_eq!(check(&" ".repeat(MAX_SOURCE)), Ok(0));
        assert_eq!(check(&" ".repeat(MAX_SOURCE + 1)).unwrap_err()[0].code, Code::Nesting);
    }
}
