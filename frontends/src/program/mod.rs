//! Programs: the program section of a `.model`, in either language, into a [`Module`] of graphs.
//!
//! | module | does |
//! |---|---|
//! | [`rs`], [`tri`] | source → [`ast::Tree`] |
//! | [`ast`] | the syntax tree of both languages |
//! | `source` | what both readers ask of a source, and their limits |
//! | [`height`] | how deep expressions lie in each other |
//! | [`diagnostic`], [`codes`] | errors, shown on the source |

pub mod ast;
pub mod codes;
pub mod diagnostic;
pub mod height;
pub mod rs;
mod source;
pub mod tri;

pub use ast::{Language, Span, Tree};
pub use codes::Code;
pub use diagnostic::{Diagnostic, Diagnostics};

/// Parses a program.
///
/// # Errors
/// Everything that is wrong with its syntax, by place.
pub fn parse(source: &str, language: Language) -> Result<Tree, Vec<Diagnostic>> {
    match language {
        Language::Rs => rs::parse(source),
        Language::Tri => tri::parse(source),
    }
}
