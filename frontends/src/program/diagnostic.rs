//! Diagnostics: errors and warnings about a program, shown on its source.

use super::ast::Span;
use super::codes::Code;
use super::source::{MARK, turns_text};
use std::fmt::Write as _;
use std::sync::Arc;

/// At most this many diagnostics are shown; a program with more has one cause for most of them.
const SHOWN: usize = 24;

/// The most characters of a source line that are shown; longer ones are cut around the caret.
const WIDTH: usize = 160;

/// One error or warning.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What kind; its page in `docs/errors.md` explains it.
    pub code: Code,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A few words under the caret; may be empty.
    pub label: String,
    /// Other places that matter, each with a few words.
    pub related: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without label, related places and help.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { code, message: message.into(), span, label: String::new(), related: Vec::new(), help: None }
    }

    /// With words under the caret.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With another place that matters.
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Self {
        self.related.push((span, words.into()));
        self
    }
}

/// Everything that is wrong with a program, with its source: what a caller shows.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// The name of the source, as a path or `program of MODEL`.
    pub name: String,
    /// The source.
    pub source: Arc<str>,
    /// What is wrong, by place.
    pub list: Vec<Diagnostic>,
}

impl std::error::Error for Diagnostics {}

impl Diagnostics {
    /// Whether every one of them says that something is sound and not supported.
    pub fn is_unsupported(&self) -> bool {
        self.list.iter().all(|d| d.code.is_unsupported())
    }
}

/// ```text
/// error[E0201]: the config has no key `hiden_size` in [architecture]
///  --> decoder.rs:12:48
///    |
/// 12 |     let mut h = w.embed("embed", &ids, a.hiden_size);
///    |                                          ^^^^^^^^^^ no such key
///    = help: did you mean `hidden_size`?
/// ```
impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = Lines::new(&self.source);
        let mut out = String::new();
        for (i, diagnostic) in self.list.iter().take(SHOWN).enumerate() {
            if i > 0 {
                out.push('\n');
            }
            self.show(diagnostic, &lines, &mut out);
        }
        if self.list.len() > SHOWN {
            let _ = writeln!(out, "\nand {} more", self.list.len() - SHOWN);
        }
        f.write_str(out.trim_end_matches('\n'))
    }
}

impl Diagnostics {
    fn show(&self, d: &Diagnostic, lines: &Lines<'_>, out: &mut String) {
        let place = lines.place(d.span.start);
        let related: Vec<Place> = d.related.iter().map(|(span, _)| lines.place(span.start)).collect();
        let widest = related.iter().map(|p| p.line).chain([place.line]).max().unwrap_or(1);
        let gutter = widest.to_string().len();
        let _ = writeln!(out, "error[{}]: {}", d.code.name(), plain(&d.message));
        let _ = writeln!(out, "{:gutter$}--> {}:{}:{}", "", plain(&self.name), place.line, place.column);
        let _ = writeln!(out, "{:gutter$} |", "");
        lines.excerpt(d.span, '^', &d.label, gutter, out);
        for ((span, words), _) in d.related.iter().zip(&related) {
            let _ = writeln!(out, "{:gutter$} |", "");
            lines.excerpt(*span, '-', words, gutter, out);
        }
        if let Some(help) = &d.help {
            for (i, line) in help.lines().enumerate() {
                let lead = if i == 0 { "= help: " } else { "        " };
                let _ = writeln!(out, "{:gutter$} {lead}{}", "", plain(line));
            }
        }
    }
}

/// The most characters of a message, a line of help or a name that are shown.
const LONGEST: usize = 2000;

/// `text` with characters that a terminal would obey, or that turn the text around them, written as escapes.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            out.push('…');
            break;
        }
        match c {
            '\t' => out.push_str("    "),
            c if c.is_control() || turns_text(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Line and column, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The lines of a source.
pub struct Lines<'a> {
    source: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines.
    pub fn new(source: &'a str) -> Self {
        // A byte order mark takes no column.
        let first = if source.starts_with(MARK) { MARK.len_utf8() } else { 0 };
        let starts = std::iter::once(first).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { source, starts }
    }

    /// Where a byte stands.
    pub fn place(&self, at: u32) -> Place {
        let at = self.boundary(at).max(self.starts[0]);
        let line = self.starts.partition_point(|&start| start <= at).max(1);
        let column = self.source[self.starts[line - 1]..at].chars().count() + 1;
        Place { line, column }
    }

    /// A line, counted from 1, without its end.
    pub fn line(&self, number: usize) -> &'a str {
        let Some(&start) = number.checked_sub(1).and_then(|i| self.starts.get(i)) else { return "" };
        let end = self.starts.get(number).map_or(self.source.len(), |next| next - 1);
        self.source[start..end.max(start)].trim_end_matches('\r')
    }

    /// The nearest place at or before a byte where a character begins.
    fn boundary(&self, at: u32) -> usize {
        let mut at = (at as usize).min(self.source.len());
        while !self.source.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// The first line of a span, with marks below.
    fn excerpt(&self, span: Span, mark: char, label: &str, gutter: usize, out: &mut String) {
        let place = self.place(span.start);
        let line = self.line(place.line);
        let start = self.starts[place.line - 1];
        let from = self.boundary(span.start).saturating_sub(start).min(line.len());
        let to = (self.boundary(span.end).saturating_sub(start)).clamp(from, line.len());
        // Cut a long line around the mark.
        let before = line[..from].chars().count();
        let skip = if before + 20 > WIDTH { before - WIDTH / 2 } else { 0 };
        let shown: String = line.chars().skip(skip).take(WIDTH).collect();
        let lead: String = line[..from].chars().skip(skip).collect();
        let marked: String = line[from..to].chars().take(WIDTH - lead.chars().count().min(WIDTH - 1)).collect();
        let dots = |cut: bool| if cut { "…" } else { "" };
        let head = dots(skip > 0);
        let tail = dots(line.chars().count() > skip + WIDTH);
        let _ = writeln!(out, "{:>gutter$} | {head}{}{tail}", place.line, plain(&shown));
        let indent = columns(&plain(&lead)) + head.chars().count();
        let marks = mark.to_string().repeat(columns(&plain(&marked)).max(1));
        let words = if label.is_empty() { String::new() } else { format!(" {}", plain(label)) };
        let _ = writeln!(out, "{:gutter$} | {:indent$}{marks}{words}", "", "");
    }
}

/// Columns that a terminal gives a text.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, error: Diagnostic) -> String {
        Diagnostics { name: "a.rs".into(), source: source.into(), list: vec![error] }.to_string()
    }

    #[test]
    fn carets_stand_below_wide_characters_tabs_and_escapes() {
        let source = "\t名\u{202e}\u{7}x = é;\r\ny";
        let at = source.find("x =").unwrap();
        let found = shown(source, Diagnostic::new(Code::Syntax, Span::new(at, at + 1), "odd").label("here"));
        let want = "error[E0101]: odd\n --> a.rs:1:5\n  |\n1 |     名\\u{202e}\\u{7}x = é;\n  | ";
        assert_eq!(found, format!("{want}{}^ here", " ".repeat(4 + 2 + 8 + 5)));
    }

    #[test]
    fn places_past_the_end_and_inside_characters_are_shown() {
        for (start, end) in [(0, 0), (1, 2), (2, 2), (3, 900), (900, 901), (2, 1)] {
            for source in ["", "é", "a\n", "\n\né", "a\r\n", "\u{feff}", "\u{feff}a"] {
                let error = Diagnostic::new(Code::Syntax, Span { start, end }, "odd");
                let found = shown(source, error.related(Span { start: end, end: start }, "there").help("a\nb"));
                assert!(found.contains('^') && found.ends_with("= help: a\n          b"), "{found}");
            }
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let source = format!("{}x{}", "a".repeat(5000), "b".repeat(5000));
        let found = shown(&source, Diagnostic::new(Code::Syntax, Span::new(5000, 9000), "odd"));
        assert!(found.lines().all(|line| line.chars().count() <= WIDTH + 10), "{found}");
        let lines: Vec<&str> = found.lines().collect();
        let column = lines[4].find('^').unwrap();
        assert_eq!(lines[3].chars().nth(column), Some('x'));
        let many = vec![Diagnostic::new(Code::Syntax, Span::new(0, 1), "odd"); SHOWN + 3];
        let found = Diagnostics { name: "a".into(), source: "a".into(), list: many }.to_string();
        assert!(found.ends_with("and 3 more"));
    }
}
