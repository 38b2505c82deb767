//! Reader of starcoder2.

use super::llama::{LLAMA, rules, same_layers};
use super::read::{Defaults, plain, with_prefix};
use super::{Activation, DecoderSpec, Gate, Names, Norm, rope};
use crate::families::{FamilyError, Settings, TensorShapes};

/// starcoder2: layer norms, a feed-forward without a gate, biases by `use_bias`, one window on every layer.
pub fn starcoder2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 3072,
        width: 12288,
        layers: 30,
        heads: 24,
        kv_heads: 2,
        vocab: 49152,
        max_positions: 4096,
        activation: ("hidden_act", Activation::GeluTanh),
        ..LLAMA
    };
    let names = Names { up: "mlp.c_fc", down: "mlp.c_proj", ..Names::llama("model.") };
    let norm = Norm::Layer { eps: s.epsilon("norm_epsilon", 1e-5)?, bias: true };
    let (mut spec, sizes) = plain(s, tensors, defaults, with_prefix(names, &[""], tensors), norm)?;
    let bias = s.flag("use_bias", true)?;
    spec.attention.qkv_bias = bias;
    spec.attention.out_bias = bias;
    spec.feed_forward.gate = Gate::Off;
    spec.feed_forward.bias = bias;
    let rope = rope::read(s, rules(sizes, defaults))?;
    let window = s.window("sliding_window", None)?;
    same_layers(s, &mut spec, sizes, window, rope)?;
    Ok(spec)
}
