//! Differences of graphs: one entry for one edit, whatever nodes are numbered and values are called.

#![allow(clippy::unwrap_used)] // Tests outside `#[test]` functions too.

mod common;
#[path = "diff/decoder.rs"]
mod decoder;
#[path = "diff/edits.rs"]
mod edits;
#[path = "diff/random.rs"]
mod random;

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

#[test]
fn debug_one() {
    let (a, b) = (build(4, &[], Names::Layers, Weights::Shared), build(4, &[(Edit::MulForAdd, &[0, 1, 3])], Names::Layers, Weights::Shared));
    let d = diff(&a, &b).unwrap();
    for p in &d.pairs {
        let n = |g: &tallow_ir::Graph, id| g.results(id).next().and_then(|v| g.name_of(v).map(str::to_owned)).unwrap_or_default();
        println!("{} {}  {:?}", n(&a, p.left), n(&b, p.right), p.changes.len());
    }
    println!("{:#?}", d.entries.iter().map(|e| &e.text).collect::<Vec<_>>());
}
