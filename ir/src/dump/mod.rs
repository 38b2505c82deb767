//! Graphs for people and for other tools: folded text, JSON, Graphviz and Mermaid.
//!
//! All are pure functions of a graph, give the same bytes for the same graph, and recurse nowhere.
//! The text form that is read back is [`crate::text`].

mod counts;
mod differences;
mod dot;
mod encodings;
mod fold;
mod json;
mod kinds;
mod listing;
mod long;
mod mermaid;
pub(crate) mod names;
mod naming;
mod picture;
mod repeats;
pub(crate) mod scopes;
mod text;
mod tree;
mod wrap;

pub use dot::dot;
pub use json::json;
pub use mermaid::mermaid;
pub use picture::Detail;
pub use text::folded;

pub(crate) use counts::Counts;
pub(crate) use listing::Listing;
pub(crate) use tree::{Group, GroupKind, Tree};

#[cfg(test)]
mod tests;
