//! Tokens of `.tri` programs.

use crate::program::source::{describe, plain_form};
use crate::program::{Code, Diagnostic, Span};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name that is no keyword.
    Name,
    /// A word of the language.
    Key(Key),
    /// A whole number.
    Int,
    /// A number with a point or exponent.
    Float,
    /// A text in quotes.
    Str,
    /// Brackets, operators and other signs.
    Sign(Sign),
    /// The end of the source.
    End,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($variant:ident $text:literal)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variant),* }

        impl $name {
            const ALL: &'static [$name] = &[$($name::$variant),*];

            /// As written.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}

words! {
    /// Words of the language.
    Key:
    Module "module" Use "use" Pub "pub" Fn "fn" Struct "struct" Const "const" Let "let" Mut "mut" For "for" In "in"
    Bounded "bounded" While "while" Loop "loop" If "if" Else "else" Match "match" Return "return" Break "break"
    Continue "continue" True "true" False "false"
}

words! {
    /// Signs, longer ones first where one begins another.
    Sign:
    ShlAssign "<<=" ShrAssign ">>=" DotsInclusive "..=" Dots ".." Arrow "->" FatArrow "=>" Colons "::" EqEq "=="
    Ne "!=" Le "<=" Ge ">=" AndAnd "&&" OrOr "||" Shl "<<" Shr ">>" AddAssign "+=" SubAssign "-=" MulAssign "*="
    DivAssign "/=" RemAssign "%=" AndAssign "&=" OrAssign "|=" XorAssign "^=" ParenOpen "(" ParenClose ")"
    BracketOpen "[" BracketClose "]" BraceOpen "{" BraceClose "}" Comma "," Colon ":" Semicolon ";" Dot "." Assign "="
    Lt "<" Gt ">" Plus "+" Minus "-" Star "*" Slash "/" Percent "%" And "&" Or "|" Caret "^" Bang "!" Question "?"
    At "@" Hash "#" Underscore "_"
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Whether it is the first of its line.
    pub fresh: bool,
    /// The first byte.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Token {
    /// Where it stands.
    pub fn span(&self) -> Span {
        Span { start: self.start, end: self.end }
    }
}

/// Reads tokens; what is none is an error and left out.
pub fn tokens(source: &str, begin: usize, errors: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut lexer = Lexer { source, at: begin, fresh: true, out: Vec::new(), errors, import: false, unended: false };
    while lexer.step() {}
    lexer.out
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    /// Whether no token of this line was read yet.
    fresh: bool,
    out: Vec<Token>,
    errors: &'a mut Vec<Diagnostic>,
    /// Whether the line began with `use` or `module`, where `#` begins a comment.
    import: bool,
    /// Whether a text without an end was found.
    unended: bool,
}

/// How many characters after a quote that begins no text here the end is looked for.
const NEAR: usize = 200;

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.source.get(self.at..).and_then(|rest| rest.chars().next())
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip(&mut self, such: impl Fn(char) -> bool) {
        while let Some(c) = self.peek().filter(|&c| such(c)) {
            self.at += c.len_utf8();
        }
    }

    fn error(&mut self, error: Diagnostic) {
        if self.errors.len() < crate::program::source::MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Adds the token that began at `start`.
    fn push(&mut self, kind: Kind, start: usize) {
        if self.fresh {
            self.import = matches!(kind, Kind::Key(Key::Use | Key::Module));
        }
        self.out.push(Token { kind, fresh: self.fresh, start: start as u32, end: self.at as u32 });
        self.fresh = false;
    }

    /// Reads one token or what lies between; whether there may be more.
    fn step(&mut self) -> bool {
        let start = self.at;
        let Some(c) = self.peek() else {
            self.fresh = true;
            self.push(Kind::End, start);
            return false;
        };
        match c {
            '\n' => {
                self.at += 1;
                self.fresh = true;
            }
            ' ' | '\t' | '\r' => self.at += 1,
            '/' if self.byte(1) == b'/' => self.skip(|c| c != '\n'),
            '#' if self.import && !self.fresh => self.skip(|c| c != '\n'),
            '/' if self.byte(1) == b'*' => self.block_comment(),
            '"' => self.text(),
            '\'' => self.apostrophe(),
            c if c.is_ascii_digit() => self.number(),
            c if c.is_ascii_alphabetic() || c == '_' => self.word(),
            c if c.is_alphabetic() => {
                self.skip(|c| c.is_alphanumeric() || c == '_');
                let span = Span::new(start, self.at);
                let message = format!("{} cannot stand in a name", describe(c));
                self.error(
                    Diagnostic::new(Code::Syntax, span, message).help("names have the letters a to z, digits and `_`"),
                );
                self.push(Kind::Name, start);
            }
            _ => self.sign(c),
        }
        true
    }

    fn sign(&mut self, c: char) {
        let start = self.at;
        let rest = &self.source[start..];
        if let Some(&sign) = Sign::ALL.iter().find(|sign| rest.starts_with(sign.text())) {
            self.at += sign.text().len();
            self.push(Kind::Sign(sign), start);
            return;
        }
        self.at += c.len_utf8();
        let error =
            Diagnostic::new(Code::Syntax, Span::new(start, self.at), format!("{} cannot stand here", describe(c)));
        self.error(match plain_form(c) {
            Some(plain) => error.help(format!("write `{plain}`: word processors change it")),
            None => error.help("delete it, or put it into a text or comment"),
        });
        // The sign that was meant, so that the line is no second mistake.
        if let Some(&sign) = Sign::ALL.iter().find(|sign| plain_form(c) == Some(sign.text())) {
            self.push(Kind::Sign(sign), start);
        }
        // A text in such quotes is one mistake, not one for each of its words.
        if plain_form(c) == Some("\"") {
            let near = self.source[self.at..].char_indices().take(NEAR).take_while(|(_, c)| *c != '\n');
            if let Some((at, end)) = near.into_iter().find(|&(_, c)| plain_form(c) == Some("\"") || c == '"') {
                self.at += at + end.len_utf8();
                self.push(Kind::Str, start);
            }
        }
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let length = self.source[start..].find("*/").map_or(self.source.len() - start, |n| n + 2);
        let error = Diagnostic::new(Code::Syntax, Span::new(start, start + 2), "comments are written with `//`");
        self.error(error.help("begin every line of the comment with `//`"));
        self.fresh |= self.source[start..start + length].contains('\n');
        self.at += length;
    }

    /// A text in quotes, on one line or more.
    fn text(&mut self) {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    break;
                }
                Some('\\') => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                Some(c) => self.at += c.len_utf8(),
                None => {
                    let error = Diagnostic::new(Code::Syntax, Span::new(start, start + 1), "the text has no end");
                    self.error(error.label("begins here").help("write `\"` where it ends"));
                    // Everything after the first line was meant as program; but look again once only.
                    let line = self.source[start..].find('\n').filter(|_| !self.unended);
                    self.at = line.map_or(self.source.len(), |line| start + line);
                    self.unended = true;
                    break;
                }
            }
        }
        self.push(Kind::Str, start);
    }

    fn apostrophe(&mut self) {
        let start = self.at;
        self.at += 1;
        let near = self.source[self.at..].char_indices().take(NEAR).take_while(|(_, c)| *c != '\n');
        self.at += near.into_iter().find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1);
        let error = Diagnostic::new(Code::Syntax, Span::new(start, self.at), "texts are written in `\"`");
        self.error(error.help("write `\"…\"`, for a single character too"));
        self.push(Kind::Str, start);
    }

    fn word(&mut self) {
        let start = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        if let Some(c) = self.peek().filter(|c| c.is_alphanumeric()) {
            let span = Span::new(self.at, self.at + c.len_utf8());
            self.skip(|c| c.is_alphanumeric() || c == '_');
            let message = format!("{} cannot stand in a name", describe(c));
            self.error(
                Diagnostic::new(Code::Syntax, span, message).help("names have the letters a to z, digits and `_`"),
            );
        }
        let text = &self.source[start..self.at];
        let key = Key::ALL.iter().find(|key| key.text() == text);
        let kind = match key {
            Some(&key) => Kind::Key(key),
            None if text == "_" => Kind::Sign(Sign::Underscore),
            None => Kind::Name,
        };
        self.push(kind, start);
    }

    fn number(&mut self) {
        let start = self.at;
        let digits = |c: char| c.is_ascii_digit() || c == '_';
        let radix = self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'b' | b'o');
        // The number of a field, as in `pair.0.1`.
        let field = self.out.last().is_some_and(|t| t.kind == Kind::Sign(Sign::Dot) && t.end as usize == start);
        let mut kind = Kind::Int;
        if radix || field {
            self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            self.push(kind, start);
            return;
        }
        self.skip(digits);
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.skip(digits);
            kind = Kind::Float;
        }
        let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
        if matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit() {
            self.at += 1 + sign;
            self.skip(digits);
            kind = Kind::Float;
        }
        // Letters at the end are part of the number, and an error there.
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        self.push(kind, start);
    }
}
