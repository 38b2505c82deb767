//! Reader of gpt_neox.

use super::llama::{LLAMA, rules, same_layers};
use super::read::{Defaults, plain, plain_heads, with_prefix};
use super::rope::{self, Rules};
use super::{Activation, DecoderSpec, Gate, Names, Norm, NormPlaces, Projections};
use crate::families::{FamilyError, Settings, TensorShapes};

/// gpt_neox: layer norms, one matrix that holds q, k and v head by head, partial rotation, a feed-forward without a
/// gate, attention and feed-forward side by side, each under its own norm, unless `use_parallel_residual` is false.
pub fn gpt_neox(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 6144,
        width: 24576,
        layers: 44,
        heads: 64,
        vocab: 50432,
        activation: ("hidden_act", Activation::Gelu),
        ..LLAMA
    };
    let names = Names {
        embedding: "embed_in",
        final_norm: "final_layer_norm",
        head: "embed_out",
        qkv: "attention.query_key_value",
        out: "attention.dense",
        up: "mlp.dense_h_to_4h",
        down: "mlp.dense_4h_to_h",
        ..Names::llama("gpt_neox.")
    };
    let norm = Norm::Layer { eps: s.epsilon("layer_norm_eps", 1e-5)?, bias: true };
    let (mut spec, sizes) = plain(s, tensors, defaults, with_prefix(names, &[""], tensors), norm)?;
    plain_heads(s, sizes, true)?;
    if s.flag("use_parallel_residual", true)? {
        spec.places = NormPlaces::ParallelNorms;
    }
    let bias = s.flag("attention_bias", true)?;
    spec.attention.projections = Projections::FusedByHead;
    spec.attention.qkv_bias = bias;
    spec.attention.out_bias = bias;
    spec.feed_forward.gate = Gate::Off;
    spec.feed_forward.bias = true;
    // The type's own names of the two; those that all types have beat them.
    let theta = s.positive("rotary_emb_base")?.unwrap_or(defaults.theta);
    let partial = Some(s.number("rotary_pct")?.unwrap_or(0.25));
    let rope = rope::read(s, Rules { theta, partial, ..rules(sizes, defaults) })?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}
