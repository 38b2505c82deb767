//! Reader of cohere.

use super::llama::{LLAMA, attention_bias, rules, same_layers};
use super::read::{Defaults, plain, with_prefix};
use super::{DecoderSpec, HeadNorm, Names, Norm, NormPlaces, Rope, rope};
use crate::families::{FamilyError, Settings, TensorShapes};

/// cohere: attention and feed-forward side by side under one layer norm without bias, rotation of neighbouring lanes, a
/// factor on the logits, a norm with a row for each head by `use_qk_norm`.
pub fn cohere(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 8192,
        width: 22528,
        layers: 40,
        heads: 64,
        vocab: 256_000,
        theta: 500_000.0,
        max_positions: 8192,
        ..LLAMA
    };
    let norm = Norm::Layer { eps: s.epsilon("layer_norm_eps", 1e-5)?, bias: false };
    let names = with_prefix(Names::llama("model."), &[""], tensors);
    let (mut spec, sizes) = plain(s, tensors, defaults, names, norm)?;
    spec.places = NormPlaces::Parallel;
    attention_bias(s, &mut spec)?;
    if s.flag("use_qk_norm", false)? {
        spec.attention.head_norm = HeadNorm::RowPerHead;
    }
    spec.head.scale = s.multiplier("logit_scale", 0.0625)?;
    let rope = Rope { interleaved: true, ..rope::read(s, rules(sizes, defaults))? };
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}
