//! Differences of graphs: one entry for one edit, whatever nodes are numbered and values are called.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;
#[path = "diff/decoder.rs"]
mod decoder;
#[path = "diff/edits.rs"]
mod edits;
#[path = "diff/elsewhere.rs"]
mod elsewhere;
#[path = "diff/interface.rs"]
mod interface;
#[path = "diff/kinds.rs"]
mod kinds;
#[path = "diff/random.rs"]
mod random;
#[path = "diff/scale.rs"]
mod scale;
