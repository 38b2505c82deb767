//! The graph IR of Tallow: operations, types, graph, verifier, text and binary forms.
//!
//! This crate knows no tensor library, no file format and no model config. A front end builds a
//! [`Graph`], [`verify`](verify::verify) turns it into a [`Verified`](verify::Verified) one, and the
//! compiler lowers that.

pub mod binary;
pub mod diff;
pub mod dim;
pub mod dtype;
pub mod dump;
pub mod equal;
pub mod error;
pub mod evaluate;
pub mod graph;
pub mod hex;
pub mod hint;
pub mod ops;
pub mod page;
pub mod reference;
pub mod rope;
mod shape;
pub mod text;
pub mod types;
pub mod verify;

pub use binary::RawGraph;
pub use dim::{Bindings, Dim};
pub use dtype::DType;
pub use equal::graphs_equal;
pub use error::{IrError, RuleError};
pub use evaluate::{Evaluate, Literal};
pub use graph::{Graph, Node, NodeId, NodeKind, Value};
pub use ops::{Effect, Op, OpInfo};
pub use types::{Shape, TensorType};
pub use verify::{Verified, verify};

/// The reserved input that the session injects: the number of tokens already in the cache.
pub const POS: &str = "pos";
/// The symbol of the number of tokens in the present call.
pub const SEQUENCE: &str = "S";
/// The symbol of the number of tokens that earlier calls left in the cache.
pub const PAST: &str = "P";
