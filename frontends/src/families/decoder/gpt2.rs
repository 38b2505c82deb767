//! Reader of gpt2.

use super::llama::{LLAMA, same_layers};
use super::read::{Defaults, plain, plain_heads, with_prefix};
use super::{Activation, DecoderSpec, Gate, Names, Norm, Projections, Rope};
use crate::families::{FamilyError, Settings, TensorShapes};

/// gpt2: learned positions and no rotation, layer norms, one matrix for q, k and v, a feed-forward without a gate,
/// biases everywhere. Matrices are `[out, in]` here: import turns those of Hugging Face files.
pub fn gpt2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 768,
        width: 0,
        layers: 12,
        heads: 12,
        vocab: 50257,
        max_positions: 1024,
        activation: ("activation_function", Activation::GeluTanh),
        ..LLAMA
    };
    let names = Names {
        embedding: "wte",
        positions: "wpe",
        layers: "h",
        final_norm: "ln_f",
        attention_norm: "ln_1",
        feed_forward_norm: "ln_2",
        qkv: "attn.c_attn",
        out: "attn.c_proj",
        up: "mlp.c_fc",
        down: "mlp.c_proj",
        ..Names::llama("transformer.")
    };
    let norm = Norm::Layer { eps: s.epsilon("layer_norm_epsilon", 1e-5)?, bias: true };
    let (mut spec, sizes) = plain(s, tensors, defaults, with_prefix(names, &[""], tensors), norm)?;
    plain_heads(s, sizes, true)?;
    spec.embedding.positions = Some(s.size("max_position_embeddings", defaults.max_positions)?);
    spec.attention.projections = Projections::Fused;
    spec.attention.qkv_bias = true;
    spec.attention.out_bias = true;
    if !s.flag("scale_attn_weights", true)? {
        spec.attention.scale = Some(1.0);
    }
    spec.attention.scale_by_depth = s.flag("scale_attn_by_inverse_layer_idx", false)?;
    spec.feed_forward.gate = Gate::Off;
    spec.feed_forward.bias = true;
    same_layers(s, &mut spec, sizes, None, None::<Rope>)?;
    Ok(spec)
}
