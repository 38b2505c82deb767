//! Programs: the program section of a `.model`, in either language, into a [`Module`] of graphs.
//!
//! | module | does |
//! |---|---|
//! | [`rs`], [`tri`] | source → [`ast::Tree`] |
//! | [`ast`] | the syntax tree of both languages |
//! | [`entry`] | from a tree, a config and a tensor index to a module: the whole way |
//! | [`eval`], [`value`] | the evaluator and its values |
//! | [`build`], [`builtins`] | the graph under construction, and what can be called to add to it |
//! | [`generation`], [`split`] | loops over generated tokens; what runs once |
//! | [`host`] | code on text and numbers that are known only when running |
//! | [`module`] | what comes out |
//! | `chat` | functions that write a conversation as a prompt |
//! | `config` | the config as values |
//! | `source` | what both readers ask of a source, and their limits |
//! | [`height`] | how deep expressions lie in each other |
//! | [`diagnostic`], [`codes`] | errors, shown on the source |
//! | [`reference`](mod@reference) | pages of the documentation |

pub mod ast;
pub mod build;
pub mod builtins;
mod chat;
pub mod codes;
mod config;
pub mod diagnostic;
pub mod entry;
pub mod eval;
pub mod generation;
pub mod height;
pub mod host;
pub mod module;
pub mod reference;
pub mod rs;
pub mod rules;
mod source;
mod split;
pub mod tri;
pub mod value;

pub use ast::{Language, Span, Tree};
pub use codes::Code;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use entry::{Options, compile};
pub use eval::METHODS;
pub use module::{Driver, Module, Outcome};

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
