//! Readers of llama and the types that are llama with switches.

use super::axes;
use super::read::{Defaults, Sizes, causal, llama_names, of_sizes, plain_heads, sizes};
use super::rope::{self, Rules};
use super::{Activation, DecoderSpec, Gate, HeadNorm, Layer, Names, Norm, Projections, Rope, windows};
use crate::families::{FamilyError, Settings, TensorShapes};

type Described = Result<DecoderSpec, FamilyError>;

pub(super) const LLAMA: Defaults = Defaults {
    hidden: 4096,
    width: 11008,
    layers: 32,
    heads: 32,
    kv_heads: 0,
    head_dim: 0,
    vocab: 32000,
    eps: 1e-6,
    theta: 10_000.0,
    max_positions: 2048,
    activation: ("hidden_act", Activation::Silu),
};

/// llama: biases by `attention_bias` (q, k, v and o) and `mlp_bias`, no windows.
pub fn llama(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let (mut spec, sizes) = common(s, tensors, LLAMA)?;
    llama_biases(s, &mut spec)?;
    let rope = rope::read(s, rules(sizes, LLAMA))?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}

/// mistral: no biases; one window on every layer, 4096 where the key is missing.
pub fn mistral(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { width: 14336, kv_heads: 8, max_positions: 131_072, ..LLAMA };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    let rope = rope::read(s, rules(sizes, defaults))?;
    let window = s.window("sliding_window", Some(4096))?;
    same_layers(s, &mut spec, sizes, window, rope)?;
    Ok(spec)
}

const QWEN: Defaults = Defaults { width: 22016, kv_heads: 32, vocab: 151_936, max_positions: 32768, ..LLAMA };

/// qwen2: q, k and v always have biases; windows on the layers from `max_window_layers` on.
pub fn qwen2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let (mut spec, sizes) = common(s, tensors, QWEN)?;
    spec.attention.qkv_bias = true;
    let rope = rope::read(s, rules(sizes, QWEN))?;
    qwen_layers(s, &mut spec, sizes, rope, 28)?;
    Ok(spec)
}

const QWEN_VL: Defaults = Defaults {
    hidden: 8192,
    width: 29568,
    layers: 80,
    heads: 64,
    kv_heads: 8,
    vocab: 152_064,
    eps: 1e-5,
    theta: 1_000_000.0,
    max_positions: 32768,
    ..LLAMA
};

/// The text part of qwen2_vl and qwen2_5_vl: qwen2 with other defaults, heads of `hidden_size` alone, and positions on three
/// axes.
pub(crate) fn qwen2_vl_text(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let (mut spec, sizes) = common(s, tensors, QWEN_VL)?;
    plain_heads(s, sizes, false)?;
    spec.attention.qkv_bias = true;
    let rope = axes::read(s, rules(sizes, QWEN_VL), [16, 24, 24])?;
    qwen_layers(s, &mut spec, sizes, rope, 80)?;
    Ok(spec)
}

/// qwen3: a norm on each query and key head, `attention_bias`, windows as qwen2.
pub fn qwen3(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { head_dim: 128, ..QWEN };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    attention_bias(s, &mut spec)?;
    spec.attention.head_norm = HeadNorm::PerHead;
    let rope = rope::read(s, rules(sizes, QWEN))?;
    qwen_layers(s, &mut spec, sizes, rope, 28)?;
    Ok(spec)
}

/// phi3: joined projections, partial rotation, longrope, a window on every layer.
pub fn phi3(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { hidden: 3072, width: 8192, vocab: 32064, eps: 1e-5, max_positions: 4096, ..LLAMA };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    spec.attention.projections = Projections::Fused;
    spec.feed_forward.gate = Gate::Fused;
    let rules = Rules { partial: Some(1.0), phi3: true, ..rules(sizes, defaults) };
    let rope = rope::read(s, rules)?;
    let window = s.window("sliding_window", None)?;
    same_layers(s, &mut spec, sizes, window, rope)?;
    Ok(spec)
}

/// smollm3: some layers do not rotate; windows, where they are switched on, on just those.
pub fn smollm3(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults {
        hidden: 2048,
        layers: 36,
        heads: 16,
        kv_heads: 4,
        vocab: 128_256,
        theta: 2_000_000.0,
        max_positions: 32768,
        ..LLAMA
    };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    llama_biases(s, &mut spec)?;
    let rope = rope::read(s, rules(sizes, defaults))?;
    let rotates = rotating_layers(s, sizes.layers)?;
    let windows = windows::switched(s, sizes.layers, None, |i| !rotates[i as usize])?;
    spec.attention.causal = causal(s, &windows)?;
    spec.layers = windows
        .into_iter()
        .zip(rotates)
        .map(|(window, rotates)| Layer { window, rope: rotates.then(|| rope.clone()), experts: None })
        .collect();
    Ok(spec)
}

/// granite: llama with a factor on the embedding, on each branch, on scores and on logits.
pub fn granite(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let (mut spec, sizes) = common(s, tensors, LLAMA)?;
    llama_biases(s, &mut spec)?;
    spec.embedding.scale = s.multiplier("embedding_multiplier", 1.0)?;
    spec.residual_scale = s.multiplier("residual_multiplier", 1.0)?;
    spec.attention.scale = Some(s.multiplier("attention_multiplier", 1.0)?);
    let divisor = s.number("logits_scaling")?.unwrap_or(1.0);
    if divisor == 0.0 {
        return Err(s.bad("logits_scaling", 0, "logits are divided by it", "Correct it"));
    }
    spec.head.scale = (1.0 / divisor) as f32;
    let rope = rope::read(s, rules(sizes, LLAMA))?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}

/// The part that all of these types share; layers are still to come.
pub(super) fn common(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
) -> Result<(DecoderSpec, Sizes), FamilyError> {
    let names = llama_names(tensors);
    let sizes = sizes(s, defaults, &names, tensors)?;
    Ok((described(s, tensors, defaults, names, sizes)?, sizes))
}

/// A decoder of these sizes, with plain attention; layers are still to come.
pub(super) fn described(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
    names: Names,
    sizes: Sizes,
) -> Described {
    let norm = Norm::Rms { eps: s.epsilon("rms_norm_eps", defaults.eps)?, offset: 0.0 };
    of_sizes(s, tensors, defaults, names, sizes, norm)
}

/// `attention_bias`: q, k, v and o.
pub(super) fn attention_bias(s: &Settings<'_>, spec: &mut DecoderSpec) -> Result<(), FamilyError> {
    let bias = s.flag("attention_bias", false)?;
    spec.attention.qkv_bias = bias;
    spec.attention.out_bias = bias;
    Ok(())
}

/// What these types bring to the rotation.
pub(super) fn rules(sizes: Sizes, defaults: Defaults) -> Rules {
    Rules {
        head_dim: sizes.head_dim,
        theta: defaults.theta,
        max_positions: defaults.max_positions,
        partial: None,
        phi3: false,
    }
}

fn llama_biases(s: &Settings<'_>, spec: &mut DecoderSpec) -> Result<(), FamilyError> {
    attention_bias(s, spec)?;
    spec.feed_forward.bias = s.flag("mlp_bias", false)?;
    Ok(())
}

/// Every layer with the same window and rotation, or without one.
pub(super) fn same_layers(
    s: &Settings<'_>,
    spec: &mut DecoderSpec,
    sizes: Sizes,
    window: Option<u32>,
    rope: impl Into<Option<Rope>>,
) -> Result<(), FamilyError> {
    spec.attention.causal = causal(s, &[window])?;
    let rope = rope.into();
    spec.layers = vec![Layer { window, rope, experts: None }; sizes.layers as usize];
    Ok(())
}

/// Layers with windows from `max_window_layers` on, which is `first` where the key is missing.
fn qwen_layers(
    s: &mut Settings<'_>,
    spec: &mut DecoderSpec,
    sizes: Sizes,
    rope: Rope,
    first: u32,
) -> Result<(), FamilyError> {
    let first = s.window("max_window_layers", Some(first))?.unwrap_or(0);
    let windows = windows::switched(s, sizes.layers, Some(4096), |i| i >= first)?;
    spec.attention.causal = causal(s, &windows)?;
    spec.layers = windows.into_iter().map(|window| Layer { window, rope: Some(rope.clone()), experts: None }).collect();
    Ok(())
}

/// Which layers rotate: `no_rope_layers`, where 1 means that a layer does, else all but every
/// `no_rope_layer_interval`th.
fn rotating_layers(s: &Settings<'_>, layers: u32) -> Result<Vec<bool>, FamilyError> {
    let key = "no_rope_layers";
    let interval = s.optional_size("no_rope_layer_interval")?.unwrap_or(4);
    let Some(list) = s.integers(key)?.filter(|l| !l.is_empty()) else {
        return Ok((0..layers).map(|i| (i + 1) % interval != 0).collect());
    };
    if list.len() < layers as usize {
        return Err(s.bad(
            key,
            format!("a list of {}", list.len()),
            format!("`num_hidden_layers` is {layers}"),
            "Give one entry per layer: 1 where the layer rotates, 0 where it does not",
        ));
    }
    let rotates = |n: &i64| match n {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(s.bad(key, other, "expected 0 or 1", "Correct it")),
    };
    list.iter().take(layers as usize).map(rotates).collect()
}
