//! Readers of gemma, gemma2 and gemma3.

use super::llama::{attention_bias, common, rules, same_layers};
use super::read::{Defaults, Sizes, causal};
use super::{Activation, DecoderSpec, HeadNorm, Layer, Norm, NormPlaces, rope, windows};
use crate::families::{FamilyError, Settings, TensorShapes};

/// gemma: norm weights are stored minus 1, embeddings × √hidden, the tanh form of gelu.
pub fn gemma(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 3072,
        width: 24576,
        layers: 28,
        heads: 16,
        kv_heads: 16,
        head_dim: 256,
        vocab: 256_000,
        eps: 1e-6,
        theta: 10_000.0,
        max_positions: 8192,
        activation: ("hidden_act", Activation::GeluTanh),
    };
    let (mut spec, sizes) = scaled(s, tensors, defaults)?;
    // `gelu` in the first published files means the tanh form.
    if spec.feed_forward.activation == Activation::Gelu {
        spec.feed_forward.activation = Activation::GeluTanh;
    }
    one_way(s)?;
    let rope = rope::read(s, rules(sizes, defaults))?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}

/// gemma2: gemma with norms around both branches, bounds on scores and logits, windows on every other layer.
pub fn gemma2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 2304,
        width: 9216,
        layers: 26,
        heads: 8,
        kv_heads: 4,
        head_dim: 256,
        vocab: 256_000,
        eps: 1e-6,
        theta: 10_000.0,
        max_positions: 8192,
        activation: ("hidden_activation", Activation::GeluTanh),
    };
    let (mut spec, sizes) = scaled(s, tensors, defaults)?;
    around(s, &mut spec)?;
    spec.attention.softcap = s.softcap("attn_logit_softcapping", Some(50.0))?;
    spec.head.softcap = s.softcap("final_logit_softcapping", Some(30.0))?;
    one_way(s)?;
    let windows = windows::by_layer(s, sizes.layers, Some(4096), |i| i % 2 == 0)?;
    spec.attention.causal = causal(s, &windows)?;
    let rope = rope::read(s, rules(sizes, defaults))?;
    spec.layers = windows.into_iter().map(|window| Layer { window, rope: Some(rope.clone()), experts: None }).collect();
    Ok(spec)
}

/// gemma3 (text): gemma with norms around both branches and on each query and key head, windows on
/// five layers of six, a theta for sliding and one for full layers.
pub fn gemma3(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults {
        hidden: 2304,
        width: 9216,
        layers: 26,
        heads: 8,
        kv_heads: 4,
        head_dim: 256,
        vocab: 262_208,
        eps: 1e-6,
        theta: 1_000_000.0,
        max_positions: 131_072,
        activation: ("hidden_activation", Activation::GeluTanh),
    };
    let (mut spec, sizes) = scaled(s, tensors, defaults)?;
    around(s, &mut spec)?;
    spec.attention.head_norm = HeadNorm::PerHead;
    spec.head.softcap = s.softcap("final_logit_softcapping", None)?;
    let key = "sliding_window_pattern";
    let pattern = match s.optional_size(key)? {
        Some(n) => n,
        None => s.optional_size("_sliding_window_pattern")?.unwrap_or(6),
    };
    let windows = windows::by_layer(s, sizes.layers, Some(4096), |i| (i + 1) % pattern != 0)?;
    spec.attention.causal = causal(s, &windows)?;
    let both_ways = "use_bidirectional_attention";
    if s.flag(both_ways, false)? {
        if windows.iter().any(Option::is_some) {
            return Err(s.unsupported(
                both_ways,
                true,
                "windows that reach in both directions are not built",
                "Use a program",
            ));
        }
        spec.attention.causal = false;
    }
    let (sliding, full) = rope::read_pair(s, rules(sizes, defaults), 10_000.0)?;
    spec.layers = windows
        .into_iter()
        .map(|window| {
            let rope = if window.is_some() { &sliding } else { &full };
            Layer { window, rope: Some(rope.clone()), experts: None }
        })
        .collect();
    Ok(spec)
}

/// What gemma2 and gemma3 share: norms around both branches, and a scale of scores with a key of its own.
fn around(s: &mut Settings<'_>, spec: &mut DecoderSpec) -> Result<(), FamilyError> {
    spec.places = NormPlaces::Around;
    spec.names.feed_forward_norm = "pre_feedforward_layernorm";
    let scalar = s.positive("query_pre_attn_scalar")?.unwrap_or(256.0);
    spec.attention.scale = Some(scalar.powf(-0.5) as f32);
    if let Some(name) = s.text("hidden_act")?
        && Activation::from_name(&name) != Some(spec.feed_forward.activation)
    {
        s.note(format!(
            "`hidden_act` = \"{}\" has no effect: this type reads `hidden_activation`",
            name.chars().take(60).collect::<String>()
        ));
    }
    Ok(())
}

/// An error for attention both ways, of which gemma and gemma2 have no one meaning.
fn one_way(s: &Settings<'_>) -> Result<(), FamilyError> {
    let both_ways = "use_bidirectional_attention";
    match s.flag(both_ways, false)? {
        false => Ok(()),
        true => Err(s.unsupported(
            both_ways,
            true,
            "the reference gives different results for it on different paths",
            "Remove it for causal attention, or set `is_causal` = false for attention both ways",
        )),
    }
}

/// What all three share.
fn scaled(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
) -> Result<(DecoderSpec, Sizes), FamilyError> {
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    attention_bias(s, &mut spec)?;
    if let Norm::Rms { offset, .. } = &mut spec.norm {
        *offset = 1.0;
    }
    spec.embedding.scale = f64::from(sizes.hidden).sqrt() as f32;
    Ok((spec, sizes))
}
