//! Readers of mixtral, qwen2_moe and qwen3_moe: decoders of the llama scheme with experts.

use super::llama::{LLAMA, attention_bias, common, rules, same_layers};
use super::read::{Defaults, causal};
use super::{Activation, DecoderSpec, HeadNorm, Layer, rope, windows};
use crate::families::experts::{ExpertNames, Experts, Router, Scores, SharedExpert};
use crate::families::{FamilyError, Settings, TensorShapes};

type Described = Result<DecoderSpec, FamilyError>;

/// mixtral: mistral with experts on every layer, whose weights always sum to 1.
pub fn mixtral(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { width: 14336, kv_heads: 8, eps: 1e-5, theta: 1e6, max_positions: 131_072, ..LLAMA };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    let rope = rope::read(s, rules(sizes, defaults))?;
    let window = s.window("sliding_window", None)?;
    same_layers(s, &mut spec, sizes, window, rope)?;
    let keys = ["num_local_experts", "num_experts_per_tok"];
    let router = router(s, keys, [8, 2], true)?;
    // Files that were saved under the library's own names call the block as the other types do.
    let renamed = tensors.shape(&format!("{}.weight", spec.names.in_layer(0, ExpertNames::MLP.router))).is_some();
    let names = if renamed { ExpertNames::MLP } else { ExpertNames::MIXTRAL };
    let experts = experts(router, sizes.width, names, &spec);
    spec.layers.iter_mut().for_each(|layer| layer.experts = Some(experts.clone()));
    Ok(spec)
}

const QWEN2_MOE: Defaults = Defaults {
    hidden: 2048,
    width: 5632,
    layers: 24,
    heads: 16,
    kv_heads: 16,
    vocab: 151_936,
    max_positions: 32768,
    ..LLAMA
};

/// qwen2_moe: biases on q, k and v; windows on even layers below `max_window_layers`; a shared expert with a gate.
pub fn qwen2_moe(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let (mut spec, sizes) = common(s, tensors, QWEN2_MOE)?;
    spec.attention.qkv_bias = s.flag("qkv_bias", true)?;
    let rope = rope::read(s, rules(sizes, QWEN2_MOE))?;
    let bound = s.count("max_window_layers", 28)?;
    let windows = windows::switched(s, sizes.layers, Some(4096), |i| i % 2 == 0 && i < bound)?;
    spec.attention.causal = causal(s, &windows)?;
    spec.layers = windows.into_iter().map(|window| Layer { window, rope: Some(rope.clone()), experts: None }).collect();
    let shared = SharedExpert {
        name: "mlp.shared_expert",
        width: s.size("shared_expert_intermediate_size", 5632)?,
        bias: false,
        gate: Some("mlp.shared_expert_gate"),
    };
    sparse_layers(s, &mut spec, [60, 4], 1408, Some(shared))?;
    Ok(spec)
}

/// qwen3_moe: attention as qwen3, with a window on every layer or on none; no shared expert.
pub fn qwen3_moe(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { width: 6144, heads: 32, kv_heads: 4, ..QWEN2_MOE };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    attention_bias(s, &mut spec)?;
    spec.attention.head_norm = HeadNorm::PerHead;
    let rope = rope::read(s, rules(sizes, defaults))?;
    let on = s.flag("use_sliding_window", false)?;
    let window = s.window("sliding_window", Some(4096))?.filter(|_| on);
    same_layers(s, &mut spec, sizes, window, rope)?;
    sparse_layers(s, &mut spec, [128, 8], 768, None)?;
    Ok(spec)
}

/// Gives qwen's layers their experts: every `decoder_sparse_step`th, apart from `mlp_only_layers`. `defaults` are the
/// numbers of all and of chosen experts.
fn sparse_layers(
    s: &mut Settings<'_>,
    spec: &mut DecoderSpec,
    defaults: [u32; 2],
    width: u32,
    shared: Option<SharedExpert>,
) -> Result<(), FamilyError> {
    // Two names of one number.
    let all = if s.contains("num_local_experts") { "num_local_experts" } else { "num_experts" };
    let step = s.size("decoder_sparse_step", 1)?;
    let dense = s.integers("mlp_only_layers")?.unwrap_or_default();
    let width = s.size("moe_intermediate_size", width)?;
    let renormalise = s.flag("norm_topk_prob", false)?;
    if s.count(all, defaults[0])? == 0 {
        // Read, so that it is not taken for a setting without a reader.
        s.count("num_experts_per_tok", defaults[1])?;
        return Ok(());
    }
    let router = router(s, [all, "num_experts_per_tok"], defaults, renormalise)?;
    let experts = Experts { shared, ..experts(router, width, ExpertNames::MLP, spec) };
    for (i, layer) in (0u32..).zip(&mut spec.layers) {
        if (i + 1) % step == 0 && !dense.contains(&i.into()) {
            layer.experts = Some(experts.clone());
        }
    }
    Ok(())
}

/// A router of softmax over all experts; `keys` are those of the numbers of all and of chosen experts.
fn router(s: &mut Settings<'_>, keys: [&str; 2], defaults: [u32; 2], renormalise: bool) -> Result<Router, FamilyError> {
    let router = Router {
        experts: s.size(keys[0], defaults[0])?,
        chosen: s.size(keys[1], defaults[1])?,
        scores: Scores::Softmax,
        groups: None,
        renormalise: renormalise.then_some(0.0),
        scale: 1.0,
    };
    router.check(s, [keys[0], keys[1], "", ""])?;
    Ok(router)
}

fn experts(router: Router, width: u32, names: ExpertNames, spec: &DecoderSpec) -> Experts {
    let activation: Activation = spec.feed_forward.activation;
    Experts { router, width, activation, names, shared: None }
}
