//! The reader of `.rs` programs: Rust syntax, parsed with `syn`.
//!
//! | module | does |
//! |---|---|
//! | `brackets` | finds brackets, texts and comments that are not closed, before anything else looks at the source |
//! | `scan` | refuses nesting that `syn` could not take, and attributes that would change the program |
//! | `items`, `expr`, `pattern`, `types`, `literal` | one each: what `syn` read → the tree |
//! | `macros`, `format` | `vec!`, `format!` and their kin |
//! | `errors` | what `syn` says → diagnostics |
//! | `position` | places of `syn` → bytes |
//!
//! `syn` recurses when it parses and when its tree is dropped, so all of it happens on a thread with a large stack.

mod brackets;
mod errors;
mod expr;
mod format;
mod items;
mod literal;
mod macros;
mod pattern;
mod position;
mod scan;
mod types;

use super::ast::{ExprId, ExprKind, Name};
use super::source::{self, MAX_ERRORS, MAX_NESTING};
use super::{Code, Diagnostic, Language, Span, Tree, height};
use position::Positions;
use proc_macro2::{Ident, TokenStream};
use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

/// The stack of the reading thread; `scan` lets nothing through that needs more, in a build without optimisation
/// either. Only what is used takes memory.
const STACK: usize = 256 << 20;

/// Parses a program in Rust syntax.
///
/// # Errors
/// Everything that is wrong with its syntax, by place.
pub fn parse(source: &str) -> Result<Tree, Vec<Diagnostic>> {
    let begin = source::check(source)?;
    brackets::check(source, begin)?;
    source::with_stack(STACK, || read(source, begin))?
}

/// Parses on this thread.
fn read(source: &str, begin: usize) -> Result<Tree, Vec<Diagnostic>> {
    let text = source.get(begin..).unwrap_or("");
    let positions = Positions::new(text, begin);
    let tokens = TokenStream::from_str(text).map_err(|e| vec![errors::lexical(&e, source, &positions)])?;
    let mut found = Vec::new();
    scan::check(&tokens, &positions, &mut found);
    if found.iter().any(|d| matches!(d.code, Code::Nesting | Code::Literal)) {
        return Err(found);
    }
    let file = match syn::parse2::<syn::File>(tokens) {
        Ok(file) => file,
        Err(error) => {
            found.extend(errors::syntax(&error, source, &positions));
            return Err(found);
        }
    };
    let mut reader = Reader::new(positions);
    reader.errors = found;
    reader.items(&file.items);
    reader.finish()
}

/// Turns what `syn` read into the tree, and collects what is not in the language.
struct Reader<'a> {
    tree: Tree,
    positions: Positions<'a>,
    errors: Vec<Diagnostic>,
    /// Expressions, types and patterns around the present one.
    depth: usize,
    /// Macros around the present expression.
    macros: usize,
    /// Whether the next literal stands after `-`.
    negated: bool,
    /// The type whose `impl` block is read.
    owner: Option<Arc<str>>,
    /// Type parameters in scope: nobody looks into what they stand for.
    generics: Vec<HashSet<String>>,
    /// The names of what stands at the top, by kind.
    names: HashSet<TopName>,
}

/// A name with its kind and the type whose `impl` block holds it.
type TopName = (&'static str, Option<Arc<str>>, Arc<str>);

impl<'a> Reader<'a> {
    fn new(positions: Positions<'a>) -> Self {
        Reader {
            tree: Tree::new(Language::Rs),
            positions,
            errors: Vec::new(),
            depth: 0,
            macros: 0,
            negated: false,
            owner: None,
            generics: Vec::new(),
            names: HashSet::new(),
        }
    }

    fn finish(mut self) -> Result<Tree, Vec<Diagnostic>> {
        if self.errors.is_empty() {
            return height::check(&self.tree).map(|()| self.tree).map_err(|e| vec![e]);
        }
        self.errors.sort_by_key(|d| (d.span.start, d.span.end));
        Err(self.errors)
    }

    fn error(&mut self, error: Diagnostic) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Refuses what the language has not.
    fn refuse(&mut self, span: Span, what: &str, help: &str) {
        let error = Diagnostic::new(Code::NotInLanguage, span, format!("{what} not in the language of programs"));
        self.error(if help.is_empty() { error } else { error.help(help) });
    }

    fn span(&self, span: proc_macro2::Span) -> Span {
        self.positions.span(span)
    }

    fn name(&self, ident: &Ident) -> Name {
        Name { text: ident.to_string().into(), span: self.span(ident.span()) }
    }

    /// An expression in the place of one that was refused.
    fn nothing(&mut self, span: Span) -> ExprId {
        self.tree.add(ExprKind::Tuple(Vec::new()), span)
    }

    /// Goes one level deeper and calls `read`; nothing when that is too deep, which is said once.
    fn deeper<T>(&mut self, span: Span, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_NESTING {
            if !self.errors.iter().any(|d| d.code == Code::Nesting) {
                self.error(too_deep(span));
            }
            return None;
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        Some(out)
    }
}

/// The nesting limit is passed at `span`.
fn too_deep(span: Span) -> Diagnostic {
    let message = format!("this is nested more than {MAX_NESTING} deep");
    Diagnostic::new(Code::Nesting, span, message).help("give parts a name with `let`, or move them into a function")
}
