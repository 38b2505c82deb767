//! Reader of stablelm.

use super::llama::{LLAMA, rules, same_layers};
use super::read::{Defaults, plain, plain_heads, with_prefix};
use super::rope::{self, Rules};
use super::{DecoderSpec, HeadNorm, Names, Norm, NormPlaces};
use crate::families::{FamilyError, Settings, TensorShapes};

/// stablelm: layer norms, partial rotation, biases of q, k and v by `use_qkv_bias`, a norm for each head by
/// `qk_layernorm`, attention and feed-forward side by side by `use_parallel_residual`.
pub fn stablelm(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults { hidden: 2560, width: 6912, kv_heads: 32, vocab: 50304, max_positions: 4096, ..LLAMA };
    let names = Names { q_norm: "self_attn.q_layernorm", k_norm: "self_attn.k_layernorm", ..Names::llama("model.") };
    let norm = Norm::Layer { eps: s.epsilon("layer_norm_eps", 1e-5)?, bias: true };
    let (mut spec, sizes) = plain(s, tensors, defaults, with_prefix(names, &[""], tensors), norm)?;
    plain_heads(s, sizes, false)?;
    spec.attention.qkv_bias = s.flag("use_qkv_bias", false)?;
    if s.flag("qk_layernorm", false)? {
        spec.attention.head_norm = HeadNorm::TensorPerHead;
        // Before a tensor is asked for, for each of them.
        let (wanted, there) = (u64::from(sizes.heads) * u64::from(sizes.layers), tensors.names().len());
        if wanted > there as u64 {
            return Err(s.bad(
                "qk_layernorm",
                true,
                format!(
                    "each head of each layer has a norm then, {wanted} for the queries, and there are {there} tensors"
                ),
                "Set it to false, or correct `num_attention_heads`",
            ));
        }
    }
    if s.flag("use_parallel_residual", false)? {
        spec.places = NormPlaces::Parallel;
    }
    let rope = rope::read(s, Rules { partial: Some(0.25), ..rules(sizes, defaults) })?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}
