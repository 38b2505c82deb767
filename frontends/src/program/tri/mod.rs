//! The reader of `.tri` programs.
//!
//! | module | does |
//! |---|---|
//! | `token` | source → tokens |
//! | `parser` | the state of the parser, and how it goes on after a mistake |
//! | `items`, `statements`, `expressions`, `types` | one each |
//!
//! A statement ends where its line ends, except inside `(` and `[`, after an operator, and before a line that begins
//! with `.` or with an operator that can only stand between two values. A line that begins with `(` or `[` is a new
//! statement. One that begins with `-`, `*` or `&` could be either, so it is an error unless the line before it ends
//! with `;`, an operator, or an opening bracket.

mod expressions;
mod items;
mod parser;
mod statements;
mod token;
mod types;

use super::source;
use super::{Diagnostic, Tree};
use parser::Parser;

/// The stack of the reading thread: nesting is limited, and this is far more than the limit needs.
const STACK: usize = 64 << 20;

/// Parses a program in Trident.
///
/// # Errors
/// Everything that is wrong with its syntax, by place.
pub fn parse(source: &str) -> Result<Tree, Vec<Diagnostic>> {
    let begin = source::check(source)?;
    source::with_stack(STACK, || {
        let mut errors = Vec::new();
        let tokens = token::tokens(source, begin, &mut errors);
        let mut parser = Parser::new(source, tokens, errors);
        parser.items();
        parser.finish()
    })?
}
