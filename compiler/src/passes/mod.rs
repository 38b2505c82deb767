//! Passes. Each keeps what a graph computes; the table below is the order in which they run.

mod portable;
mod target;

use crate::Stage::Portable;
use crate::pipeline::{Pass, Way};

pub use portable::last_row::last_row;
pub use portable::one_token::for_one_token;
pub use portable::whole_prompt::{Missed, takes_one_token, token_inputs, whole_prompt};

/// The passes in their order.
pub static PASSES: &[Pass] = &[
    Pass {
        name: "dead",
        stage: Portable,
        doc: "Removes what no output, no state and no call of the host needs.",
        way: Way::Whole(portable::dead::find),
    },
    Pass {
        name: "identities",
        stage: Portable,
        doc: "Removes operations that change nothing, and writes constants as attributes.",
        way: Way::Rule(&portable::identities::Identities),
    },
];

/// The pass of this name.
pub fn named(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|p| p.name == name)
}
