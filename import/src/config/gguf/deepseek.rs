//! Settings of deepseek: latent attention, dense first layers, experts in groups with shared ones beside them.

use serde_json::{Map, Value as Json};

use super::keys::Keys;
use super::{TensorFacts, about, rope, spec_of, usual};
use crate::config::SourceConfig;
use crate::error::Result;
use crate::gguf::GgufFile;
use crate::names::GgufArch;

/// How scores come from the router's product, by `expert_gating_func`: the numbers of its readers.
const SOFTMAX: u64 = 1;
const SIGMOID: u64 = 2;

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
    // Files from before there was another way do not say.
    let sigmoid = match keys.uint("expert_gating_func")? {
        None | Some(SOFTMAX) => false,
        Some(SIGMOID) => true,
        Some(other) => {
            let cause = format!("scores by function {other} are not read; 1 (softmax) and 2 (sigmoid) are");
            return Err(keys.unsupported("expert_gating_func", cause));
        }
    };
    let spec = spec_of(file, if sigmoid { "deepseek_v3" } else { "deepseek_v2" })?;
    usual(&mut out, &keys, facts)?;
    for (key, short) in [
        ("intermediate_size", "feed_forward_length"),
        ("kv_lora_rank", "attention.kv_lora_rank"),
        ("qk_rope_head_dim", "rope.dimension_count"),
        ("first_k_dense_replace", "leading_dense_block_count"),
        ("n_routed_experts", "expert_count"),
        ("num_experts_per_tok", "expert_used_count"),
        ("n_shared_experts", "expert_shared_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
    ] {
        out.insert(key.into(), keys.needed(short)?.into());
    }
    out.insert("q_lora_rank".into(), keys.uint("attention.q_lora_rank")?.map_or(Json::Null, Json::from));
    heads(&mut out, &keys)?;
    experts(&mut out, &keys, sigmoid)?;
    let turned = keys.needed("rope.dimension_count")?;
    rope(&mut out, &keys, spec, facts, turned)?;
    keys.refuse_unread(ignore, &mut warnings)?;
    about::source_config(file, spec, out, None, warnings)
}

/// Heads and their sizes. Newer files say in the usual keys how keys and values look to a reader that never unfolds them.
fn heads(out: &mut Map<String, Json>, keys: &Keys<'_>) -> Result<()> {
    let heads = keys.needed("attention.head_count")?;
    let short = "attention.head_count_kv";
    if let Some(kv) = keys.uint(short)?.filter(|&kv| kv != 1 && kv != heads) {
        return Err(keys.unsupported(short, format!("it is {kv}; latent attention has 1, or one for each of {heads}")));
    }
    out.insert("num_key_value_heads".into(), heads.into());
    let (mut key, mut value) = (keys.needed("attention.key_length")?, keys.needed("attention.value_length")?);
    if let Some(own) = keys.uint("attention.key_length_mla")? {
        (key, value) = (own, keys.needed("attention.value_length_mla")?);
    }
    let turned = keys.needed("rope.dimension_count")?;
    let Some(plain) = key.checked_sub(turned).filter(|&n| n > 0) else {
        let cause = format!("{turned} lanes of a key of {key} turn, and some must not");
        return Err(keys.unsupported("rope.dimension_count", cause));
    };
    out.insert("qk_nope_head_dim".into(), plain.into());
    out.insert("v_head_dim".into(), value.into());
    Ok(())
}

/// How experts are chosen, and what their weights become.
fn experts(out: &mut Map<String, Json>, keys: &Keys<'_>, sigmoid: bool) -> Result<()> {
    let scale = keys.float("expert_weights_scale")?.filter(|&scale| scale != 0.0);
    out.insert("routed_scaling_factor".into(), scale.unwrap_or(1.0).into());
    let short = "expert_weights_norm";
    let norm = keys.bool(short)?.unwrap_or(false);
    let groups = keys.uint("expert_group_count")?.filter(|&n| n > 0);
    let kept = keys.uint("expert_group_used_count")?.filter(|&n| n > 0);
    if sigmoid {
        out.insert("norm_topk_prob".into(), norm.into());
        out.insert("n_group".into(), groups.unwrap_or(1).into());
        out.insert("topk_group".into(), kept.or(groups).unwrap_or(1).into());
        return Ok(());
    }
    if norm {
        return Err(keys.unsupported(short, "weights of scores by softmax are not renormalised in this type".into()));
    }
    if let Some(groups) = groups.filter(|&n| n > 1) {
        out.insert("topk_method".into(), "group_limited_greedy".into());
        out.insert("n_group".into(), groups.into());
        out.insert("topk_group".into(), kept.unwrap_or(groups).into());
    }
    Ok(())
}
