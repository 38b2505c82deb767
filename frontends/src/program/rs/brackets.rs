//! A look at the characters of a `.rs` source before anything parses them: brackets, texts and comments that are not
//! closed, brackets that nest too deep, and characters that no program has.

use crate::program::source::{MAX_NESTING, describe, plain_form};
use crate::program::{Code, Diagnostic, Span};

/// Finds what is wrong with brackets, texts and comments.
///
/// # Errors
/// The first mistake: all that follows would be guesses.
pub fn check(source: &str, begin: usize) -> Result<(), Vec<Diagnostic>> {
    let mut open: Vec<(char, usize)> = Vec::new();
    // A block that a `}` further left or right closes: where one is missing, if one is.
    let mut suspect = None;
    let mut lexer = Lexer { source, at: begin };
    while let Some(token) = lexer.next().map_err(|e| vec![e])? {
        let Token::Bracket(c, at) = token else { continue };
        if matches!(c, '(' | '[' | '{') {
            open.push((c, at));
            if open.len() > MAX_NESTING {
                let message = format!("brackets are nested more than {MAX_NESTING} deep");
                let error = Diagnostic::new(Code::Nesting, Span::new(at, at + 1), message);
                let help = "give parts a name with `let`, or move them into a function";
                return Err(vec![error.help(help)]);
            }
            continue;
        }
        let span = Span::new(at, at + 1);
        match open.pop() {
            Some((opening, from)) if closing(opening) == c => {
                let begins_line = || source[..at].trim_end_matches([' ', '\t']).ends_with('\n');
                if c == '}' && suspect.is_none() && begins_line() && indent(source, from) != indent(source, at) {
                    suspect = Some((from, at));
                }
            }
            Some((opening, from)) => {
                let message = format!("`{c}` does not close the `{opening}` before it");
                let error =
                    Diagnostic::new(Code::Syntax, span, message).related(Span::new(from, from + 1), "not closed");
                return Err(vec![
                    error.help(format!("write `{}` before it, or delete one of the two", closing(opening))),
                ]);
            }
            None => {
                let error = Diagnostic::new(Code::Syntax, span, format!("`{c}` closes nothing"));
                return Err(vec![error.help("delete it, or look for the bracket that is missing before it")]);
            }
        }
    }
    if let Some(&(opening, from)) = unclosed(source, &open) {
        let end = source.trim_end().len();
        let message = format!("the source ends before the `{opening}` is closed");
        let error = Diagnostic::new(Code::Syntax, Span::new(end, end), message);
        let error = match suspect {
            Some((from, to)) if opening == '{' => error
                .related(Span::new(from, from + 1), "the block that begins here")
                .related(Span::new(to, to + 1), "ends here, which is not below its beginning"),
            _ => error.related(Span::new(from, from + 1), "opened here"),
        };
        return Err(vec![error.help(format!("write `{}` where it ends", closing(opening)))]);
    }
    Ok(())
}

/// The white space at the beginning of the line of a byte.
fn indent(source: &str, at: usize) -> usize {
    let line = &source[source[..at].rfind('\n').map_or(0, |n| n + 1)..];
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// The bracket to show of those that stay open. When all are nested, the innermost; but an item at the start of a
/// line inside an open body tells that the body around it is the one that lacks its end.
fn unclosed<'o>(source: &str, open: &'o [(char, usize)]) -> Option<&'o (char, usize)> {
    let item = |at: usize| {
        let line = source[..at].rfind('\n').map_or(0, |n| n + 1);
        let text = &source[line..];
        ["fn ", "pub fn ", "struct ", "impl ", "const ", "enum "].iter().any(|word| text.starts_with(word))
    };
    let inner = open.iter().skip(1).position(|&(_, at)| item(at));
    inner.map_or(open.last(), |i| open.get(i))
}

/// The end of the last token before a byte, where something is missing.
pub fn end_before(source: &str, at: usize) -> usize {
    let mut lexer = Lexer { source, at: 0 };
    let mut end = 0;
    while let Ok(Some(token)) = lexer.next() {
        if lexer.at > at {
            break;
        }
        if !matches!(token, Token::Space) {
            end = lexer.at;
        }
    }
    end
}

fn closing(opening: char) -> char {
    match opening {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

enum Token {
    /// A bracket and its place.
    Bracket(char, usize),
    /// White space and comments.
    Space,
    /// Anything else.
    Other,
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.source.get(self.at..).and_then(|rest| rest.chars().next())
    }

    fn starts(&self, text: &str) -> bool {
        self.source.as_bytes()[self.at.min(self.source.len())..].starts_with(text.as_bytes())
    }

    /// Goes on while characters are such.
    fn skip(&mut self, such: impl Fn(char) -> bool) {
        while let Some(c) = self.peek().filter(|&c| such(c)) {
            self.at += c.len_utf8();
        }
    }

    fn next(&mut self) -> Result<Option<Token>, Diagnostic> {
        let Some(c) = self.peek() else { return Ok(None) };
        let start = self.at;
        if c.is_whitespace() && (c.is_ascii() || plain_form(c).is_none()) {
            self.skip(|c| c.is_whitespace() && (c.is_ascii() || plain_form(c).is_none()));
            return Ok(Some(Token::Space));
        }
        if self.starts("//") {
            self.skip(|c| c != '\n');
            return Ok(Some(Token::Space));
        }
        if self.starts("/*") {
            self.comment()?;
            return Ok(Some(Token::Space));
        }
        match c {
            '(' | ')' | '[' | ']' | '{' | '}' => {
                self.at += 1;
                return Ok(Some(Token::Bracket(c, start)));
            }
            '"' => self.text(start)?,
            '\'' => self.apostrophe(start)?,
            c if c.is_alphabetic() || c == '_' => self.word(start)?,
            c if c.is_ascii_digit() => self.skip(|c| c.is_alphanumeric() || c == '_'),
            c if c.is_ascii_punctuation() && !matches!(c, '`' | '\\') => self.at += 1,
            c => {
                let span = Span::new(start, start + c.len_utf8());
                let error = Diagnostic::new(Code::Syntax, span, format!("{} cannot stand here", describe(c)));
                return Err(match plain_form(c) {
                    Some(plain) => error.help(format!("write `{plain}`: word processors change it")),
                    None => error.help("delete it, or put it into a text or comment"),
                });
            }
        }
        Ok(Some(Token::Other))
    }

    /// A comment that may hold others.
    fn comment(&mut self) -> Result<(), Diagnostic> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            if self.starts("/*") {
                depth += 1;
                self.at += 2;
            } else if self.starts("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                match self.peek() {
                    Some(c) => self.at += c.len_utf8(),
                    None => return Err(unended(start, 2, "comment", "*/")),
                }
            }
        }
    }

    /// A text in quotes; `at` is at the quote.
    fn text(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.at += 1;
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                Some(c) => self.at += c.len_utf8(),
                None => return Err(unended(start, 1, "text", "\"")),
            }
        }
    }

    /// A raw text; `at` is after its `r`.
    fn raw(&mut self, start: usize) -> Result<(), Diagnostic> {
        let from = self.at;
        self.skip(|c| c == '#');
        let end = format!("\"{}", "#".repeat(self.at - from));
        self.at += 1;
        match self.source.get(self.at..).and_then(|rest| rest.find(&end)) {
            Some(length) => {
                self.at += length + end.len();
                Ok(())
            }
            None => Err(unended(start, self.at - start, "raw text", &end)),
        }
    }

    /// A character, or a label or lifetime.
    fn apostrophe(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.at += 1;
        let first = self.peek();
        if first == Some('\\') {
            self.at += 1;
            self.at += self.peek().map_or(0, char::len_utf8);
            self.skip(|c| c != '\'' && c != '\n');
        } else {
            let word = first.is_some_and(|c| c.is_alphanumeric() || c == '_');
            self.at += first.map_or(0, char::len_utf8);
            if word && self.peek() != Some('\'') {
                self.skip(|c| c.is_alphanumeric() || c == '_');
                if self.peek() == Some('\'') {
                    let span = Span::new(start, self.at + 1);
                    let error = Diagnostic::new(Code::Syntax, span, "more than one character between apostrophes");
                    return Err(error.help("write a text in quotes: `\"…\"`"));
                }
                return Ok(());
            }
        }
        if self.peek() != Some('\'') {
            return Err(unended(start, 1, "character", "'"));
        }
        self.at += 1;
        Ok(())
    }

    /// A name, a keyword, or the prefix of a text.
    fn word(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.skip(|c| c.is_alphanumeric() || c == '_');
        let word = &self.source[start..self.at];
        let hashes = self.source[self.at..].bytes().take_while(|&b| b == b'#').count();
        let quoted = self.source.as_bytes().get(self.at + hashes) == Some(&b'"');
        match word {
            "r" | "br" | "cr" if quoted => self.raw(start),
            "b" | "c" if quoted && hashes == 0 => self.text(start),
            "b" if self.peek() == Some('\'') => {
                self.at += 1;
                self.skip_byte(start)
            }
            _ => Ok(()),
        }
    }

    /// A byte in apostrophes; `at` is after the first.
    fn skip_byte(&mut self, start: usize) -> Result<(), Diagnostic> {
        if self.peek() == Some('\\') {
            self.at += 1;
        }
        self.at += self.peek().map_or(0, char::len_utf8);
        self.skip(|c| c != '\'' && c != '\n');
        if self.peek() != Some('\'') {
            return Err(unended(start, 2, "byte", "'"));
        }
        self.at += 1;
        Ok(())
    }
}

/// Something that has no end.
fn unended(start: usize, length: usize, what: &str, end: &str) -> Diagnostic {
    let error = Diagnostic::new(Code::Syntax, Span::new(start, start + length), format!("the {what} has no end"));
    error.label("begins here").help(format!("write `{end}` where it ends"))
}
