//! The binary form of graphs, little-endian throughout:
//!
//! ```text
//! graph  = u32 node_count, node × node_count, [ u32 n, input × n, u32 n, string × n (outputs) ]
//! node   = u32 id, u16 op_tag, payload, u32 n, string × n (inputs), u32 n, string × n (outputs),
//!          u8 has_hint, [ u8 hint ]
//! input  = string name, u32 rank, i64 × rank (-1 = dynamic), u8 dtype, u8 has_offset,
//!          [ u64 offset, u64 size ]
//! string = u32 byte length, UTF-8 bytes
//! ```
//!
//! A file may end after the last node: the *bare* form, whose inputs and outputs follow from the
//! names. In some files the hint stands alone, one byte, 0 for none and 1 to 4 for the hint: the
//! *hint-byte* form. Whichever reading consumes all bytes is the right one; the normal form wins
//! where both do.
//!
//! [`RawGraph`] is what the bytes say, and writes the same bytes again. [`RawGraph::to_graph`] binds
//! its names and infers its types; [`RawGraph::from_graph`] is the way back.

mod bind;
mod build;
mod names;
mod read;
mod unify;
mod write;

pub use bind::{BindError, BindErrors, Binding};
pub use read::{BinaryCause, BinaryError};

use crate::{DType, Op};

/// A graph as its bytes say, names unresolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawGraph {
    /// The nodes in order of the file.
    pub nodes: Vec<RawNode>,
    /// Inputs and outputs; `None` in the bare form.
    pub interface: Option<Interface>,
    /// How hints are written.
    pub hints: HintForm,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawNode {
    /// The number that the file gives the node.
    pub id: u32,
    /// Operation and payload.
    pub op: Op,
    /// Names that it reads.
    pub inputs: Vec<String>,
    /// Names that it writes.
    pub outputs: Vec<String>,
    /// Device wish; see [`hint_name`](crate::hint::hint_name).
    pub hint: Option<u8>,
}

/// The part after the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Declared inputs.
    pub inputs: Vec<Input>,
    /// Names of the values that the graph gives.
    pub outputs: Vec<String>,
}

/// A declared input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Name.
    pub name: String,
    /// Sizes; -1 is dynamic.
    pub dims: Vec<i64>,
    /// Element type.
    pub dtype: DType,
    /// Offset and size in the weights, for an input that stands there.
    pub place: Option<(u64, u64)>,
}

/// How the hint of a node is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HintForm {
    /// A byte that says whether there is one, then the hint.
    #[default]
    Flagged,
    /// One byte, 0 for none.
    Byte,
}

impl RawGraph {
    /// Whether the file ends after the last node.
    pub fn is_bare(&self) -> bool {
        self.interface.is_none()
    }
}
