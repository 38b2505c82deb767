//! Settings of gemma 4, whose layers that see a window and those that see everything have sizes of their own.

use serde_json::{Map, Value as Json, json};
use tallow_frontends::families::MOST_LAYERS;

use super::keys::{Keys, Pattern};
use super::{TensorFacts, about, spec_of, usual};
use crate::config::SourceConfig;
use crate::error::{ImportError, Result};
use crate::gguf::GgufFile;
use crate::names::GgufArch;

/// Divisors from here on stand for lanes that are not rotated.
const STILL: f32 = 1e29;

/// Reads the settings of a file.
pub(super) fn read(
    file: &GgufFile,
    arch: &'static GgufArch,
    facts: &TensorFacts,
    ignore: &[String],
) -> Result<SourceConfig> {
    let keys = Keys::new(file, arch);
    let mut warnings = Vec::new();
    let mut out = Map::new();
    let layers = keys.needed("block_count")?;
    if layers == 0 || layers > u64::from(MOST_LAYERS) {
        return Err(keys.unsupported("block_count", format!("it is {layers}, and must be 1 to {MOST_LAYERS}")));
    }
    let short = "attention.sliding_window_pattern";
    let Some(Pattern::List(slides)) = keys.pattern(short, layers)? else {
        return Err(keys.unsupported(short, "it must be a list of one entry per layer".into()));
    };
    let words = slides.iter().map(|&slides| if slides { "sliding_attention" } else { "full_attention" });
    out.insert("layer_types".into(), words.collect());
    usual(&mut out, &keys, facts)?;
    out.insert("sliding_window".into(), keys.needed("attention.sliding_window")?.into());
    if let Some(cap) = keys.float("final_logit_softcapping")?.filter(|&cap| cap != 0.0) {
        out.insert("final_logit_softcapping".into(), cap.into());
    }
    if keys.bool("attention.causal")? == Some(false) {
        return Err(keys.unsupported("attention.causal", "attention in both directions is not read here".into()));
    }
    let full_dim = heads(&mut out, &keys, &slides, facts)?;
    rope(&mut out, &keys, full_dim, facts)?;
    feed_forward(&mut out, &keys, layers)?;
    let per_layer = keys.uint("embedding_length_per_layer_input")?.unwrap_or(0);
    out.insert("hidden_size_per_layer_input".into(), per_layer.into());
    let rows = facts.per_layer_rows.unwrap_or(facts.vocab_rows);
    out.insert("vocab_size_per_layer_input".into(), rows.into());
    keys.refuse_unread(ignore, &mut warnings)?;
    about::source_config(file, spec_of(file, arch.model_type)?, out, None, warnings)
}

/// Heads and their sizes, by kind of layer; gives the size of a head that sees everything.
fn heads(out: &mut Map<String, Json>, keys: &Keys<'_>, slides: &[bool], facts: &TensorFacts) -> Result<u64> {
    let short = "attention.head_count_kv";
    let counts = keys.per_layer(short, slides.len())?;
    let of_kind = |sliding: bool| {
        let mut counts = counts.iter().zip(slides).filter(|(_, slides)| **slides == sliding).map(|(count, _)| *count);
        let first = counts.next();
        match counts.find(|count| Some(*count) != first) {
            Some(_) => Err(keys.unsupported(short, "layers of one kind with different numbers are not read".into())),
            None => Ok(first),
        }
    };
    let (sliding, full) = (of_kind(true)?, of_kind(false)?);
    out.insert("num_key_value_heads".into(), sliding.or(full).into());
    if full.is_some() && full != sliding && sliding.is_some() {
        out.insert("num_global_key_value_heads".into(), full.into());
    }
    let size = |key: &str, value: &str, rotated: &str| -> Result<u64> {
        let size = keys.needed(key)?;
        for short in [value, rotated] {
            if let Some(other) = keys.uint(short)?.filter(|&other| other != size) {
                return Err(keys.unsupported(short, format!("it is {other} and `{key}` is {size}, which is not read")));
            }
        }
        Ok(size)
    };
    let own = size("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa")?;
    let full = size("attention.key_length", "attention.value_length", "rope.dimension_count")?;
    out.insert("head_dim".into(), own.into());
    out.insert("global_head_dim".into(), full.into());
    out.insert("num_kv_shared_layers".into(), keys.uint("attention.shared_kv_layers")?.unwrap_or(0).into());
    out.insert("attention_k_eq_v".into(), facts.keys_are_values.into());
    Ok(full)
}

/// The two rotations. Of layers that see everything, the tensor of divisors says which lanes are rotated.
fn rope(out: &mut Map<String, Json>, keys: &Keys<'_>, full_dim: u64, facts: &TensorFacts) -> Result<()> {
    let wrong = |cause: &str| {
        let cure = "Convert the model again with a current converter.";
        Err(ImportError::malformed(keys.file.path(), "tensor `rope_freqs.weight`", cause, cure))
    };
    let Some(divisors) = &facts.rope.always else { return wrong("it is missing") };
    let rotated = divisors.iter().take_while(|&&x| x == 1.0).count();
    if divisors.len() as u64 * 2 != full_dim {
        return wrong("it has not one number for each two lanes of a head");
    }
    if divisors.iter().skip(rotated).any(|&x| x < STILL) {
        return wrong("it holds other numbers than 1 and, behind them, those that stop a rotation");
    }
    let (full, sliding) = (keys.needed_float("rope.freq_base")?, keys.needed_float("rope.freq_base_swa")?);
    let share = rotated as f64 / divisors.len() as f64;
    let parameters = json!({
        "full_attention": { "partial_rotary_factor": share, "rope_theta": full, "rope_type": "proportional" },
        "sliding_attention": { "rope_theta": sliding, "rope_type": "default" },
    });
    out.insert("rope_parameters".into(), parameters);
    Ok(())
}

/// Widths, and experts where there are some.
fn feed_forward(out: &mut Map<String, Json>, keys: &Keys<'_>, layers: u64) -> Result<()> {
    let short = "feed_forward_length";
    let widths = keys.per_layer(short, layers as usize)?;
    let width = widths.first().copied().unwrap_or(0);
    let shared = out.get("num_kv_shared_layers").and_then(Json::as_u64).unwrap_or(0);
    let first = usize::try_from(layers.saturating_sub(shared)).unwrap_or(0);
    let (before, behind) = widths.split_at(first.min(widths.len()));
    let all = |widths: &[u64], width: Option<u64>| widths.iter().all(|&w| Some(w) == width);
    let double = !behind.is_empty() && !before.is_empty() && all(behind, width.checked_mul(2));
    if !all(before, Some(width)) || !(double || all(behind, Some(width))) {
        let cause = "only one width, and twice that in layers with the keys of others, are read";
        return Err(keys.unsupported(short, cause.into()));
    }
    out.insert("intermediate_size".into(), width.into());
    out.insert("use_double_wide_mlp".into(), double.into());
    let experts = keys.uint("expert_count")?.filter(|&n| n > 0);
    out.insert("enable_moe_block".into(), experts.is_some().into());
    if let Some(experts) = experts {
        out.insert("num_experts".into(), experts.into());
        out.insert("top_k_experts".into(), keys.needed("expert_used_count")?.into());
        out.insert("moe_intermediate_size".into(), keys.needed("expert_feed_forward_length")?.into());
    }
    Ok(())
}
