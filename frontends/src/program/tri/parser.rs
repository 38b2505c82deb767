//! The state of the parser, and how it goes on after a mistake.
//!
//! A function that cannot read what it should reports that and gives [`Failed`]. Statements and items catch it: they
//! skip to where the next statement or item begins, and go on there.

use super::token::{Key, Kind, Sign, Token};
use crate::program::ast::{ExprId, ExprKind, Name};
use crate::program::source::{MAX_ERRORS, MAX_NESTING};
use crate::program::{Code, Diagnostic, Language, Span, Tree, height};
use std::collections::HashMap;

/// A mistake was reported, and what was asked for is not there.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// What reading gives.
pub type Read<T> = Result<T, Failed>;

/// The parser.
pub struct Parser<'a> {
    pub(super) source: &'a str,
    pub(super) tree: Tree,
    tokens: Vec<Token>,
    at: usize,
    errors: Vec<Diagnostic>,
    depth: usize,
    /// Brackets that are open.
    pub(super) open: usize,
    /// Which of them are `{`, by their number among the open ones.
    braces: Vec<usize>,
    /// Whether line ends say nothing, inside `(` and `[`.
    pub(super) free: bool,
    /// Whether `Name {` begins a struct: not before the block of an `if` or loop.
    pub(super) structs: bool,
    /// A block that a `}` further left or right closes: where an end is missing, if one is.
    pub(super) suspect: Option<(Span, Span)>,
    /// Brackets around expressions, which are no expressions of their own.
    pub(super) brackets: HashMap<ExprId, Span>,
    /// Types that were named, to be looked up at the end.
    pub(super) named: Vec<Name>,
    /// Where the present statement or item begins: there, the end of the line before says nothing.
    pub(super) begin: usize,
    /// The item inside a function that is read, if one is.
    pub(super) inside: Option<Span>,
    /// Whether a missing `}` was reported: one is enough.
    pub(super) unclosed: bool,
}

impl<'a> Parser<'a> {
    /// A parser with what reading the tokens found.
    pub fn new(source: &'a str, tokens: Vec<Token>, errors: Vec<Diagnostic>) -> Self {
        Parser {
            source,
            tree: Tree::new(Language::Tri),
            tokens,
            at: 0,
            errors,
            depth: 0,
            open: 0,
            braces: Vec::new(),
            free: false,
            structs: true,
            suspect: None,
            brackets: HashMap::new(),
            named: Vec::new(),
            begin: 0,
            inside: None,
            unclosed: false,
        }
    }

    /// The tree, or everything that is wrong.
    pub fn finish(mut self) -> Result<Tree, Vec<Diagnostic>> {
        if self.errors.is_empty() {
            return height::check(&self.tree).map(|()| self.tree).map_err(|e| vec![e]);
        }
        self.errors.sort_by_key(|d| (d.span.start, d.span.end));
        Err(self.errors)
    }

    /// The token that is next.
    pub fn token(&self) -> Token {
        self.ahead(0)
    }

    /// The token `n` after the next one.
    pub fn ahead(&self, n: usize) -> Token {
        let end =
            Token { kind: Kind::End, fresh: true, start: self.source.len() as u32, end: self.source.len() as u32 };
        self.tokens.get(self.at + n).or(self.tokens.last()).copied().unwrap_or(end)
    }

    /// The token before the next one.
    pub fn before(&self) -> Option<Token> {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).copied()
    }

    /// The token `n` before the next one.
    pub fn back(&self, n: usize) -> Token {
        self.at.checked_sub(n).and_then(|i| self.tokens.get(i)).copied().unwrap_or_else(|| self.token())
    }

    /// The number of the next token: it tells whether something was taken.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Takes the next token; the end stays.
    pub fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != Kind::End {
            self.at += 1;
        }
        match token.kind {
            Kind::Sign(Sign::ParenOpen | Sign::BracketOpen) => self.open += 1,
            Kind::Sign(Sign::BraceOpen) => {
                self.braces.push(self.open);
                self.open += 1;
            }
            Kind::Sign(Sign::ParenClose | Sign::BracketClose | Sign::BraceClose) => {
                self.leave(self.open.saturating_sub(1));
            }
            _ => {}
        }
        token
    }

    /// Whether a sign is next.
    pub fn is(&self, sign: Sign) -> bool {
        self.token().kind == Kind::Sign(sign)
    }

    /// Whether a keyword is next.
    pub fn is_key(&self, key: Key) -> bool {
        self.token().kind == Kind::Key(key)
    }

    /// Takes a sign if it is next.
    pub fn eat(&mut self, sign: Sign) -> bool {
        let is = self.is(sign);
        if is {
            self.advance();
        }
        is
    }

    /// Takes a keyword if it is next.
    pub fn eat_key(&mut self, key: Key) -> bool {
        let is = self.is_key(key);
        if is {
            self.advance();
        }
        is
    }

    /// The text of a token.
    pub fn text(&self, token: Token) -> &'a str {
        self.source.get(token.start as usize..token.end as usize).unwrap_or("")
    }

    /// The name of a token.
    pub fn name_of(&self, token: Token) -> Name {
        Name { text: self.text(token).into(), span: token.span() }
    }

    /// Whether no more errors are kept.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Adds an error.
    pub fn error(&mut self, error: Diagnostic) {
        if !self.is_full() {
            self.errors.push(error);
        }
    }

    /// Adds a mistake of grammar.
    pub fn mistake(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Failed {
        let help: String = help.into();
        let error = Diagnostic::new(Code::Syntax, span, message);
        self.error(if help.is_empty() { error } else { error.help(help) });
        Failed
    }

    /// Refuses what the language has not.
    pub fn refuse(&mut self, span: Span, what: &str, help: &str) -> Failed {
        let message = format!("{what} not in the language of programs");
        self.error(Diagnostic::new(Code::NotInLanguage, span, message).help(help));
        Failed
    }

    /// The next token in words.
    pub fn found(&self) -> String {
        let token = self.token();
        match token.kind {
            Kind::End => "the end of the source".into(),
            Kind::Str => "a text".into(),
            _ if token.fresh && !self.free && self.at != self.begin => {
                format!("the end of the line, before `{}`", self.text(token))
            }
            _ => format!("`{}`", self.text(token)),
        }
    }

    /// Where something is missing: at the next token, or after the one before when that is on another line.
    pub fn gap(&self) -> Span {
        let token = self.token();
        match self.before() {
            Some(before) if (token.fresh && self.at != self.begin) || token.kind == Kind::End => {
                Span { start: before.end, end: before.end }
            }
            _ => token.span(),
        }
    }

    /// Takes a sign, which must be next.
    pub fn expect(&mut self, sign: Sign, after: &str) -> Read<Token> {
        if self.is(sign) {
            return Ok(self.advance());
        }
        let message = format!("expected `{}` {after}, found {}", sign.text(), self.found());
        Err(self.mistake(self.gap(), message, ""))
    }

    /// Takes a bracket that closes the one at `opened`.
    pub fn close(&mut self, sign: Sign, opened: Token) -> Read<Token> {
        if self.is(sign) {
            return Ok(self.advance());
        }
        let message = format!("expected `{}`, found {}", sign.text(), self.found());
        let error = Diagnostic::new(Code::Syntax, self.gap(), message).related(opened.span(), "opened here");
        let help = match sign {
            Sign::ParenClose | Sign::BracketClose => {
                format!("write `,` between values, or `{}` at the end", sign.text())
            }
            _ => format!("write `{}` where it ends", sign.text()),
        };
        self.error(error.help(help));
        Err(Failed)
    }

    /// Takes a name.
    pub fn name(&mut self, what: &str) -> Read<Name> {
        let token = self.token();
        if token.kind == Kind::Name && (!token.fresh || self.free || self.before().is_none_or(|b| ends_open(b.kind))) {
            self.advance();
            return Ok(self.name_of(token));
        }
        let message = format!("expected {what}, found {}", self.found());
        let help = match token.kind {
            Kind::Key(key) if !token.fresh => {
                format!("`{}` is a word of the language: choose another name", key.text())
            }
            Kind::Int | Kind::Float => "names begin with a letter or `_`".into(),
            _ => String::new(),
        };
        Err(self.mistake(self.gap(), message, help))
    }

    /// Goes one level deeper and calls `read`.
    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_NESTING {
            let span = self.token().span();
            if !self.errors.iter().any(|d| d.code == Code::Nesting) {
                let error =
                    Diagnostic::new(Code::Nesting, span, format!("this is nested more than {MAX_NESTING} deep"));
                self.error(error.help("give parts a name with `let`, or move them into a function"));
            }
            return Err(Failed);
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        out
    }

    /// Reads with line ends that say nothing, or something.
    pub fn lines<T>(&mut self, free: bool, structs: bool, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let outer = (self.free, self.structs);
        (self.free, self.structs) = (free, structs);
        let out = read(self);
        (self.free, self.structs) = outer;
        out
    }

    /// Values in brackets, with commas between and perhaps one at the end. The opening bracket is next.
    pub fn list<T>(&mut self, closing: Sign, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<(Vec<T>, Span)> {
        let opened = self.advance();
        self.lines(true, true, |p| {
            let mut out = Vec::new();
            while !p.is(closing) {
                out.push(read(p)?);
                if !p.eat(Sign::Comma) {
                    break;
                }
            }
            let closed = p.close(closing, opened)?;
            Ok((out, opened.span().to(closed.span())))
        })
    }

    /// Skips to where the next statement may begin: the next line or `;` outside the brackets that were opened since
    /// `open` were, or the end of the block.
    pub fn skip_statement(&mut self, open: usize) {
        loop {
            let token = self.token();
            let inside = self.open > open;
            match token.kind {
                Kind::End => return,
                // Nothing of these stands inside brackets.
                Kind::Key(key) if token.fresh && (begins_item(key) || (!inside && begins_statement(key))) => {
                    self.leave(open);
                    return;
                }
                Kind::Key(Key::Let) if token.fresh && !self.in_block(open) => {
                    self.leave(open);
                    return;
                }
                Kind::Sign(Sign::BraceClose) if !inside => return,
                // It closes the block, and a `(` or `[` before it was left open.
                Kind::Sign(Sign::BraceClose) if !self.in_block(open) => {
                    self.leave(open);
                    return;
                }
                Kind::Sign(Sign::Semicolon) if !inside => {
                    self.advance();
                    return;
                }
                _ if token.fresh && !inside && self.before().is_none_or(|b| !ends_open(b.kind)) => return,
                _ => {
                    self.advance();
                }
            }
        }
    }

    /// Whether a `{` was opened since `open` brackets were, and is open.
    fn in_block(&self, open: usize) -> bool {
        self.braces.last().is_some_and(|&brace| brace >= open)
    }

    /// Takes the brackets past the first `open` for closed.
    pub fn leave(&mut self, open: usize) {
        self.open = open;
        while self.braces.pop_if(|brace| *brace >= open).is_some() {}
    }

    /// Skips to where the next item may begin.
    pub fn skip_item(&mut self) {
        loop {
            let token = self.token();
            match token.kind {
                Kind::End => break,
                Kind::Key(key)
                    if token.fresh
                        && (begins_item(key) || key == Key::Const)
                        && (self.open == 0 || self.indent(token) == 0) =>
                {
                    break;
                }
                _ => {
                    self.advance();
                }
            }
        }
        self.leave(0);
    }

    /// The white space before the first token of the line of a token.
    pub fn indent(&self, token: Token) -> usize {
        let line = self.source.get(..token.start as usize).and_then(|s| s.rfind('\n')).map_or(0, |n| n + 1);
        self.source.get(line..).map_or(0, |s| s.len() - s.trim_start_matches([' ', '\t']).len())
    }

    /// Adds an expression.
    pub fn add(&mut self, kind: ExprKind, span: Span) -> ExprId {
        self.tree.add(kind, span)
    }

    /// All of an expression, with the brackets around it.
    pub fn whole(&self, id: ExprId) -> Span {
        self.brackets.get(&id).copied().unwrap_or_else(|| self.tree.expr(id).span)
    }
}

/// Whether a keyword begins an item, and nothing else.
pub fn begins_item(key: Key) -> bool {
    matches!(key, Key::Fn | Key::Pub | Key::Struct | Key::Use | Key::Module)
}

/// Whether a keyword begins a statement, and nothing else.
fn begins_statement(key: Key) -> bool {
    matches!(key, Key::Let | Key::For | Key::While | Key::Loop | Key::Return | Key::Break | Key::Continue)
}

/// Whether a line that ends with this goes on in the next.
pub fn ends_open(kind: Kind) -> bool {
    match kind {
        Kind::Sign(sign) => !matches!(
            sign,
            Sign::ParenClose
                | Sign::BracketClose
                | Sign::BraceClose
                | Sign::Semicolon
                | Sign::Underscore
                | Sign::Question
        ),
        Kind::Key(key) => {
            matches!(key, Key::In | Key::Bounded | Key::If | Key::Else | Key::While | Key::Match | Key::Mut)
        }
        Kind::Name | Kind::Int | Kind::Float | Kind::Str | Kind::End => false,
    }
}
