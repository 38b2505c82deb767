//! A look at the tokens before `syn` parses them: how deep it would recurse, and attributes that would change the
//! program.
//!
//! `syn` recurses for brackets, for what stands before a value (`-x`, `&T`, `|a| …`, `a = …`, `if …`, `A<…`), and
//! when it drops a chain of operators and calls. The scan knows no grammar, so it counts too much rather than too
//! little: a count ends where every reading of the tokens has come back from its recursion, which is at `;`, `,` and
//! `=>`, and where a statement follows a block. What it refuses is far past the limits that programs are told:
//! operators before a value count exactly, the others are measured again when the tree is made.

use super::position::Positions;
use crate::program::source::MAX_NESTING;
use crate::program::{Code, Diagnostic};
use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree, token_stream};
use std::iter::Peekable;

/// The most levels of recursion that `syn` is given. One takes some 10 KiB of stack without optimisation.
const MAX_RIGHT: usize = 1024;

/// The most links of chains around one token. Dropping one takes less than 1 KiB of stack without optimisation.
const MAX_LINKS: usize = 100_000;

/// The most digits of a number: no type holds more, and reading them takes time that grows with their square.
const MAX_DIGITS: usize = 400;

/// Attributes that change nothing here.
const ATTRIBUTES: [&str; 14] = [
    "doc",
    "inline",
    "allow",
    "expect",
    "warn",
    "deny",
    "forbid",
    "derive",
    "must_use",
    "cold",
    "track_caller",
    "rustfmt",
    "clippy",
    "default",
];

/// Finds nesting past the limits, and attributes that are not ignored.
pub fn check(tokens: &TokenStream, positions: &Positions<'_>, found: &mut Vec<Diagnostic>) {
    let mut stack = vec![Level::new(tokens.clone(), 0)];
    // The counts of all levels but the last.
    let mut outer = Counts::default();
    while let Some(level) = stack.last_mut() {
        let Some(token) = level.tokens.next() else {
            stack.pop();
            if let Some(level) = stack.last_mut() {
                outer = outer.without(level.counts);
                level.leave();
            }
            continue;
        };
        let span = token.span();
        let inside = level.token(token, positions, found);
        let total = outer.with(level.counts);
        let here = || positions.span(span);
        if total.brackets + total.run > MAX_NESTING {
            found.push(super::too_deep(here()));
            return;
        }
        if total.right() > MAX_RIGHT {
            found.push(super::too_deep(here()));
            return;
        }
        if total.links > MAX_LINKS {
            let message = format!("more than {MAX_LINKS} operators and calls follow each other");
            found.push(Diagnostic::new(Code::Nesting, here(), message).help("give parts a name with `let`"));
            return;
        }
        if let Some(inside) = inside {
            outer = total;
            stack.push(Level::new(inside, 1));
        }
    }
}

/// What was counted since the last place where `syn` had come back.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Brackets around.
    brackets: usize,
    /// Operators directly before the next value.
    run: usize,
    /// What takes all that follows: closures, assignments, `if`, `return`, results of function types.
    pending: usize,
    /// `<` that may open arguments of a type.
    angles: usize,
    /// `::` of one path: `use` recurses for each.
    colons: usize,
    /// Operators between values, calls, fields.
    links: usize,
}

impl Counts {
    fn right(self) -> usize {
        self.brackets + self.run + self.pending + self.angles + self.colons
    }

    fn with(self, o: Counts) -> Counts {
        Counts {
            brackets: self.brackets + o.brackets,
            run: self.run + o.run,
            pending: self.pending + o.pending,
            angles: self.angles + o.angles,
            colons: self.colons + o.colons,
            links: self.links + o.links,
        }
    }

    fn without(self, o: Counts) -> Counts {
        Counts {
            brackets: self.brackets - o.brackets,
            run: self.run - o.run,
            pending: self.pending - o.pending,
            angles: self.angles - o.angles,
            colons: self.colons - o.colons,
            links: self.links - o.links,
        }
    }

    /// Every reading has come back.
    fn reset(&mut self) {
        *self = Counts { brackets: self.brackets, ..Counts::default() };
    }
}

/// The tokens between two brackets.
struct Level {
    tokens: Peekable<token_stream::IntoIter>,
    counts: Counts,
    /// Whether a value or type comes next, so that `-` and the like stand before it.
    prefix: bool,
    /// Whether a block was last: what follows may be a statement of its own.
    after_block: bool,
    /// Whether `else` was last.
    after_else: bool,
    /// Whether a name was last, or `::`, after which `<` opens arguments of a type.
    after_name: bool,
    /// Whether the parameters of a closure are open.
    bars: bool,
    /// Whether the next bracket is that of an attribute: no value.
    attribute: bool,
    /// The delimiter of the bracket that was entered.
    entered: Delimiter,
}

impl Level {
    fn new(tokens: TokenStream, brackets: usize) -> Self {
        Level {
            tokens: tokens.into_iter().peekable(),
            counts: Counts { brackets, ..Counts::default() },
            prefix: true,
            after_block: false,
            after_else: false,
            after_name: false,
            bars: false,
            attribute: false,
            entered: Delimiter::None,
        }
    }

    /// Takes a token into account; the tokens inside, if it is a bracket.
    fn token(
        &mut self,
        token: TokenTree,
        positions: &Positions<'_>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<TokenStream> {
        let after_block = std::mem::take(&mut self.after_block);
        let after_else = std::mem::take(&mut self.after_else);
        let after_name = std::mem::take(&mut self.after_name);
        match token {
            TokenTree::Group(group) => {
                if !self.prefix {
                    self.counts.links += 1;
                }
                self.entered = group.delimiter();
                return Some(group.stream());
            }
            TokenTree::Ident(ident) => self.word(&ident, after_block, after_else),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.len() > MAX_DIGITS && text.starts_with(|c: char| c.is_ascii_digit()) {
                    let message = format!("a number of more than {MAX_DIGITS} digits");
                    found.push(Diagnostic::new(Code::Literal, positions.span(literal.span()), message));
                }
                if after_block {
                    self.counts.reset();
                }
                self.value();
            }
            TokenTree::Punct(punct) => {
                let next = match punct.spacing() {
                    Spacing::Joint => match self.tokens.peek() {
                        Some(TokenTree::Punct(next)) => Some(next.as_char()),
                        _ => None,
                    },
                    Spacing::Alone => None,
                };
                match punct.as_char() {
                    '\'' => {
                        // The name of a label or lifetime.
                        self.tokens.next();
                        if after_block {
                            self.counts.reset();
                        }
                        self.after_block = false;
                    }
                    '#' => {
                        if after_block {
                            self.counts.reset();
                        }
                        self.attribute(positions, found);
                    }
                    c => self.sign(c, next, self.prefix || after_block, after_name),
                }
            }
        }
        None
    }

    /// The bracket that was entered is closed.
    fn leave(&mut self) {
        if std::mem::take(&mut self.attribute) {
            return;
        }
        self.value();
        self.after_name = false;
        self.after_block = self.entered == Delimiter::Brace;
    }

    /// A value or type was read.
    fn value(&mut self) {
        self.prefix = false;
        self.counts.run = 0;
    }

    fn word(&mut self, ident: &Ident, after_block: bool, after_else: bool) {
        let is = |words: &[&str]| words.iter().any(|word| ident == word);
        if after_block && !is(&["as", "else", "in"]) {
            self.counts.reset();
        }
        if is(&["return", "break", "yield", "become", "move", "async", "unsafe", "let", "box", "static"]) {
            self.counts.pending += 1;
            self.prefix = true;
        } else if is(&["if", "match", "while", "for", "loop", "try"]) {
            // `else if` is a loop of the parser, and recursion when it is dropped.
            if after_else {
                self.counts.links += 1;
            } else {
                self.counts.pending += 1;
            }
            self.prefix = true;
            self.after_name = true;
        } else if is(&["as", "else", "in"]) {
            self.counts.links += 1;
            self.prefix = true;
            self.after_else = ident == "else";
        } else if is(&["dyn", "impl", "fn", "extern"]) {
            self.counts.run += 1;
            self.prefix = true;
            self.after_name = true;
        } else if is(&["mut", "const", "ref", "raw", "where", "pub", "crate", "use", "type", "struct", "enum", "mod"]) {
            // Nothing ends here, and no value begins.
            self.after_name = true;
            self.prefix |= after_block;
        } else {
            self.value();
            self.after_name = true;
        }
    }

    /// Signs; `next` follows without space, and is taken where both are one.
    fn sign(&mut self, c: char, next: Option<char>, prefix: bool, after_name: bool) {
        if c != ':' {
            self.counts.colons = 0;
        }
        self.prefix = true;
        let counts = &mut self.counts;
        match (c, next) {
            (',', _) => {
                // A comma between parameters of a closure, or arguments of a type, ends nothing.
                if !self.bars && counts.angles == 0 {
                    counts.reset();
                }
                counts.run = 0;
            }
            (';', _) => {
                counts.reset();
                self.bars = false;
            }
            ('=', Some('>')) => {
                self.tokens.next();
                counts.reset();
                self.bars = false;
            }
            ('-', Some('>')) | ('@', _) => {
                if c == '-' {
                    self.tokens.next();
                }
                counts.pending += 1;
            }
            ('=' | '!', Some('=')) => {
                self.tokens.next();
                counts.links += 1;
                counts.angles = 0;
            }
            ('=', _) => counts.pending += 1,
            ('+' | '-' | '*' | '/' | '%' | '^' | '&' | '|', Some('=')) if !prefix => {
                self.tokens.next();
                counts.pending += 1;
                counts.angles = 0;
            }
            (':', Some(':')) => {
                self.tokens.next();
                counts.colons += 1;
                self.prefix = prefix;
                self.after_name = true;
            }
            (':', _) => counts.colons = 0,
            ('.', Some('.')) => {
                self.tokens.next();
                if prefix {
                    counts.run += 1;
                } else {
                    counts.links += 1;
                }
                // `..=`, whose `=` assigns nothing.
                if let Some(TokenTree::Punct(third)) = self.tokens.peek()
                    && third.as_char() == '='
                {
                    self.tokens.next();
                }
            }
            ('.' | '?', _) => {
                if prefix {
                    counts.run += 1;
                } else {
                    counts.links += 1;
                    counts.angles = 0;
                    self.prefix = false;
                }
            }
            ('<', _) if prefix || after_name => counts.angles += 1,
            ('>', _) => {
                counts.links += 1;
                counts.angles = counts.angles.saturating_sub(1);
            }
            ('|', _) if self.bars => self.bars = false,
            ('|', Some('|')) => {
                self.tokens.next();
                if prefix {
                    counts.pending += 1;
                } else {
                    counts.links += 1;
                    counts.angles = 0;
                }
            }
            ('|', _) if prefix => {
                self.bars = true;
                counts.pending += 1;
            }
            ('&', Some('&')) if !prefix => {
                self.tokens.next();
                counts.links += 1;
                counts.angles = 0;
            }
            ('-' | '*' | '&' | '!', _) if prefix => counts.run += 1,
            // `!` of a macro.
            ('!', _) => self.prefix = false,
            ('+', _) => counts.links += 1,
            _ => {
                counts.links += 1;
                counts.angles = 0;
            }
        }
    }

    /// Looks at the attribute whose `#` was read.
    fn attribute(&mut self, positions: &Positions<'_>, found: &mut Vec<Diagnostic>) {
        self.prefix = true;
        if let Some(TokenTree::Punct(bang)) = self.tokens.peek()
            && bang.as_char() == '!'
        {
            self.tokens.next();
        }
        let Some(TokenTree::Group(group)) = self.tokens.peek() else { return };
        let Some(name) = attribute_name(group) else { return };
        self.attribute = true;
        if ATTRIBUTES.iter().any(|known| name == known) {
            return;
        }
        let message = format!("the attribute `{name}` is not in the language of programs");
        let span = positions.span(name.span());
        let help = "delete it: what a program does follows from its config alone";
        if found.len() < crate::program::source::MAX_ERRORS {
            found.push(Diagnostic::new(Code::NotInLanguage, span, message).help(help));
        }
    }
}

/// The name of an attribute in brackets.
fn attribute_name(group: &Group) -> Option<Ident> {
    match group.stream().into_iter().next() {
        Some(TokenTree::Ident(ident)) if group.delimiter() == Delimiter::Bracket => Some(ident),
        _ => None,
    }
}
