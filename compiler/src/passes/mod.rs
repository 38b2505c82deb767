//! Passes. Each keeps what a graph computes; the table below is the order in which they run.

mod portable;
mod target;

use crate::Stage::{Portable, Target};
use crate::pipeline::{CompileError, Pass, Way};

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
        name: "constants",
        stage: Portable,
        doc: "Computes what depends on constants and known sizes alone.",
        way: Way::Rule(&portable::constants::Constants),
    },
    Pass {
        name: "identities",
        stage: Portable,
        doc: "Removes operations that change nothing, and writes constants as attributes.",
        way: Way::Rule(&portable::identities::Identities),
    },
    Pass {
        name: "layout",
        stage: Portable,
        doc: "Joins reshapes, permutations, slices and cuts that follow each other.",
        way: Way::Rule(&portable::layout::Layout),
    },
    Pass {
        name: "common",
        stage: Portable,
        doc: "Computes an operation on the same operands once.",
        way: Way::Whole(portable::common::find),
    },
    Pass {
        name: "batch-norm",
        stage: Portable,
        doc: "Folds batch normalisation into the convolution before it.",
        way: Way::Rule(&portable::batch_norm::BatchNorm),
    },
    Pass {
        name: "gated-activations",
        stage: Target,
        doc: "Makes one operation of a gate and what it multiplies, with the products of both.",
        way: Way::Rule(&target::gated_activations::GatedActivations),
    },
    Pass {
        name: "experts",
        stage: Target,
        doc: "Makes one operation of the feed-forward of chosen experts.",
        way: Way::Rule(&target::experts::Experts),
    },
    Pass {
        name: "joined-projections",
        stage: Target,
        doc: "Multiplies a value by all matrices that it meets at once.",
        way: Way::Rule(&target::joined_projections::JoinedProjections),
    },
    Pass {
        name: "bias-activation",
        stage: Target,
        doc: "Adds the bias of a product, and applies its activation, where the product is made.",
        way: Way::Rule(&target::bias_activation::BiasActivation),
    },
    Pass {
        name: "norm-matmul",
        stage: Target,
        doc: "Normalises the operand of a product where it is multiplied.",
        way: Way::Rule(&target::norm_matmul::NormMatmul),
    },
    Pass {
        name: "skip-norm",
        stage: Target,
        doc: "Normalises a sum where it is made.",
        way: Way::Rule(&target::skip_norm::SkipNorm),
    },
    Pass {
        name: "cached-attention",
        stage: Target,
        doc: "Makes one step of a cache, the attention that reads it and what turns queries and keys.",
        way: Way::Rule(&target::cached_attention::CachedAttention),
    },
    Pass {
        name: "sampling-tail",
        stage: Target,
        doc: "Leaves out steps before the choice of a token that keep the order of logits, and moves factors into the temperature.",
        way: Way::Rule(&target::sampling_tail::SamplingTail),
    },
];

/// The passes of these names, in their order.
///
/// # Errors
/// A name that no pass has.
pub fn named(names: &[String]) -> Result<Vec<&'static Pass>, CompileError> {
    let unknown = |name: &str| CompileError::UnknownPass {
        name: name.to_owned(),
        known: PASSES.iter().map(|p| p.name).collect(),
    };
    names.iter().map(|name| PASSES.iter().find(|p| p.name == name).ok_or_else(|| unknown(name))).collect()
}
