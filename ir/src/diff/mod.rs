//! The structural difference of two graphs: how their nodes pair up, and what differs, folded by layer.
//!
//! Blind to node ids, to the order of nodes, inputs and outputs, to names of values, to device wishes, to weights that
//! nothing reads, and to what symbols are called: also to `S` and `P`, so far as a graph may call them otherwise, which
//! one with caches may not. Sees operations, attributes, operand order, types, weights, inputs and outputs.
//!
//! Matching goes from what is sure to what is likely:
//!
//! 1. inputs, weights and outputs of one name are the same;
//! 2. so are nodes with the same hash of all that they depend on and all that depends on them, or of one of both;
//! 3. from matched nodes matching spreads to their operands and readers, the likeliest pair first, so that one edit is
//!    one difference and not one of all that comes after it.
//!
//! `diff(a, b)` mirrors `diff(b, a)`. Everything is iterative, deterministic and in practice linear.

mod changes;
mod defined;
mod entries;
mod grow;
mod hashes;
mod homes;
mod matching;
mod pieces;
mod placing;
mod render;
mod side;
mod slide;
mod symbols;
mod types;
mod vary;
mod weigh;
mod words;

pub use types::{Change, Diff, Entry, Kind, Layers, Pair, Place, Spot};

use crate::{Graph, IrError};
use homes::Homes;
use matching::Matching;
use pieces::View;
use side::{Item, NONE, Side};

/// The difference of two graphs.
///
/// # Errors
/// A graph with a cycle.
pub fn diff(left: &Graph, right: &Graph) -> Result<Diff, IrError> {
    let (left, right) = (Side::new(left)?, Side::new(right)?);
    let (matching, flipped) = matching::matched(&left, &right);
    let changes = changes::changes(&left, &right, &matching);
    let homes = Homes::new(&left, &right);
    let view = View { left: &left, right: &right, matching: &matching, changes: &changes, homes, flipped };
    let entries = view.entries();
    Ok(collect(&left, &right, &matching, changes, entries))
}

/// The result by node ids, in topological order of the graphs.
fn collect(
    left: &Side<'_>,
    right: &Side<'_>,
    matching: &Matching,
    mut changes: Vec<Vec<Change>>,
    entries: Vec<Entry>,
) -> Diff {
    let numbers = |side: &Side<'_>| {
        let mut numbers = vec![NONE; side.graph.node_bound()];
        let nodes = (0..side.len() as u32).filter(|&n| !matches!(side.item(n), Item::Output(_)));
        nodes.for_each(|n| numbers[side.ids[n as usize].index()] = n);
        numbers
    };
    let mut diff = Diff { entries, ..Diff::default() };
    let of_left = numbers(left);
    for id in left.graph.topological().unwrap_or_default() {
        let x = of_left[id.index()];
        match matching.to_right[x as usize] {
            NONE => diff.removed.push(id),
            y => diff.pairs.push(Pair {
                left: id,
                right: right.ids[y as usize],
                changes: std::mem::take(&mut changes[x as usize]),
            }),
        }
    }
    let of_right = numbers(right);
    let all = right.graph.topological().unwrap_or_default().into_iter();
    diff.added = all.filter(|id| matching.to_left[of_right[id.index()] as usize] == NONE).collect();
    diff
}
