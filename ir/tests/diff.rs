//! Differences of graphs: one entry for one edit, whatever nodes are numbered and values are called.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;
#[path = "diff/decoder.rs"]
mod decoder;

use decoder::{Edit, Edits, Names, Weights, decoder as build};
use tallow_ir::diff::diff;

fn texts(left: &tallow_ir::Graph, right: &tallow_ir::Graph) -> Vec<String> {
    diff(left, right).unwrap().entries.into_iter().map(|e| e.text).collect()
}

#[test]
fn show() {
    const ALL: &[usize] = &[0, 1, 2, 3];
    for weights in [Weights::Layers, Weights::Shared, Weights::None] {
        println!("== {weights:?}");
        for edit in [
            Edit::Epsilon, Edit::Swapped, Edit::NoBias, Edit::Window, Edit::Activation, Edit::Scaled, Edit::Fused,
            Edit::Encoding, Edit::WiderMlp, Edit::Renamed, Edit::SkipFromStart, Edit::RotatedByLayer, Edit::NoNorm, Edit::TwoExtra, Edit::MulForAdd,
        ] {
            for at in [&[2][..], &[0, 1, 3][..], ALL] {
                let edits: Edits<'_> = &[(edit, at)];
                let (a, b) = (build(4, &[], Names::Layers, weights), build(4, edits, Names::Odd, weights));
                println!("{edit:?} {at:?}: {:#?}", texts(&a, &b));
            }
        }
    }
}
