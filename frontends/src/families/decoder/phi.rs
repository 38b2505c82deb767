//! Reader of phi.

use super::llama::{LLAMA, rules, same_layers};
use super::read::{Defaults, plain, with_prefix};
use super::rope::{self, Rules};
use super::{Activation, DecoderSpec, Gate, HeadNorm, Names, Norm, NormPlaces};
use crate::families::{FamilyError, Settings, TensorShapes};

/// phi: attention and feed-forward side by side under one layer norm, a feed-forward without a gate, biases everywhere
/// and at the head too, partial rotation.
pub fn phi(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 2048,
        width: 8192,
        layers: 24,
        vocab: 51200,
        activation: ("hidden_act", Activation::GeluTanh),
        ..LLAMA
    };
    let names = Names {
        final_norm: "final_layernorm",
        q_norm: "self_attn.q_layernorm",
        k_norm: "self_attn.k_layernorm",
        out: "self_attn.dense",
        up: "mlp.fc1",
        down: "mlp.fc2",
        ..Names::llama("model.")
    };
    let norm = Norm::Layer { eps: s.epsilon("layer_norm_eps", 1e-5)?, bias: true };
    let (mut spec, sizes) = plain(s, tensors, defaults, with_prefix(names, &[""], tensors), norm)?;
    spec.places = NormPlaces::Parallel;
    spec.attention.qkv_bias = true;
    spec.attention.out_bias = true;
    if s.flag("qk_layernorm", false)? {
        spec.attention.head_norm = HeadNorm::PerHead;
    }
    spec.feed_forward.gate = Gate::Off;
    spec.feed_forward.bias = true;
    spec.head.bias = Some(format!("{}.bias", spec.names.head));
    let rope = rope::read(s, Rules { partial: Some(0.5), ..rules(sizes, defaults) })?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}
