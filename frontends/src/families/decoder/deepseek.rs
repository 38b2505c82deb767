//! Readers of deepseek_v2 and deepseek_v3: latent attention, dense first layers, experts with groups and a shared one.

use super::llama::{LLAMA, attention_bias, described, rules};
use super::read::{Defaults, Sizes, causal, llama_names};
use super::{DecoderSpec, Latent, Layer, Rope, rope};
use crate::families::experts::{ExpertNames, Experts, Groups, Router, Scores, SharedExpert};
use crate::families::{FamilyError, Settings, TensorShapes};

type Described = Result<DecoderSpec, FamilyError>;

/// The keys of a router, for messages.
const KEYS: [&str; 4] = ["n_routed_experts", "num_experts_per_tok", "n_group", "topk_group"];

/// deepseek_v2: scores by softmax; of groups the best expert counts, and experts of other groups score 0.
pub fn deepseek_v2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults { vocab: 102_400, ..LLAMA };
    let (mut spec, layers) = attention(s, tensors, defaults, true)?;
    spec.feed_forward.bias = s.flag("mlp_bias", false)?;
    let (groups, kept) = (s.optional_size("n_group")?, s.optional_size("topk_group")?);
    let groups = match s.text("topk_method")?.as_deref() {
        None | Some("greedy") => None,
        Some("group_limited_greedy") => {
            let needed = |found: Option<u32>, key| {
                found.ok_or_else(|| s.bad(key, "nothing", "`topk_method` is `group_limited_greedy`", "Add it"))
            };
            Some(Groups { count: needed(groups, KEYS[2])?, kept: needed(kept, KEYS[3])?, best: 1, others: 0.0 })
        }
        Some(other) => {
            return Err(s.unsupported(
                "topk_method",
                format!("\"{}\"", other.chars().take(60).collect::<String>()),
                "known ways to choose experts are greedy and group_limited_greedy",
                "Use a program or a graph section for another one",
            ));
        }
    };
    let chosen = s.optional_size(KEYS[1])?;
    let router = Router {
        experts: s.size(KEYS[0], 64)?,
        chosen: chosen.ok_or_else(|| s.bad(KEYS[1], "nothing", "this type has no default for it", "Add it"))?,
        scores: Scores::Softmax,
        groups,
        renormalise: None,
        scale: s.multiplier("routed_scaling_factor", 1.0)?,
    };
    experts(s, &mut spec, layers, router, Own { first: 0, width: 1407, shared: 2 })?;
    Ok(spec)
}

/// deepseek_v3: scores by sigmoid, with a correction for the choice; of groups the two best experts count.
pub fn deepseek_v3(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Described {
    let defaults = Defaults {
        hidden: 7168,
        width: 18432,
        layers: 61,
        heads: 128,
        kv_heads: 128,
        vocab: 129_280,
        max_positions: 4096,
        ..LLAMA
    };
    let interleaved = s.flag("rope_interleave", true)?;
    let (mut spec, layers) = attention(s, tensors, defaults, interleaved)?;
    let groups = Groups {
        count: s.size(KEYS[2], 8)?,
        kept: s.size(KEYS[3], 4)?,
        best: 2,
        // Below every score that can be chosen.
        others: f32::MIN,
    };
    let router = Router {
        experts: s.size(KEYS[0], 256)?,
        chosen: s.size(KEYS[1], 8)?,
        scores: Scores::Sigmoid("mlp.gate.e_score_correction_bias"),
        groups: Some(groups),
        renormalise: s.flag("norm_topk_prob", true)?.then_some(1e-20),
        scale: s.multiplier("routed_scaling_factor", 2.5)?,
    };
    experts(s, &mut spec, layers, router, Own { first: 3, width: 2048, shared: 1 })?;
    Ok(spec)
}

/// The decoder apart from its experts, and how many layers it has.
fn attention(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
    interleaved: bool,
) -> Result<(DecoderSpec, u32), FamilyError> {
    let names = llama_names(tensors);
    let heads = s.size("num_attention_heads", defaults.heads)?;
    let key = "num_key_value_heads";
    let kv_heads = match (s.optional_size(key)?, defaults.kv_heads) {
        (Some(n), _) => n,
        (None, 0) => heads,
        (None, n) => n,
    };
    if kv_heads != heads {
        let cause = format!("latent attention has a key and a value for each of its {heads} heads");
        return Err(s.bad(key, kv_heads, cause, "Correct it"));
    }
    // Without a rank queries come from the residual stream; a config without nulls says 0.
    let q_rank = Some(s.count("q_lora_rank", 1536)?).filter(|n| *n > 0);
    let (plain, turned) = (s.size("qk_nope_head_dim", 128)?, s.size("qk_rope_head_dim", 64)?);
    let value = s.size("v_head_dim", 128)?;
    let widest = u64::from(heads) * (u64::from(plain) + u64::from(turned) + u64::from(value));
    if widest > 1 << 28 {
        let cause = format!("{heads} heads of these sizes have {widest} lanes");
        return Err(s.bad("qk_nope_head_dim", plain, cause, "Correct it"));
    }
    let sizes = Sizes {
        hidden: s.size("hidden_size", defaults.hidden)?,
        width: s.size("intermediate_size", defaults.width)?,
        layers: s.layers(defaults.layers)?,
        heads,
        kv_heads,
        head_dim: turned,
        vocab: s.size("vocab_size", defaults.vocab)?,
    };
    let mut spec = described(s, tensors, defaults, names, sizes)?;
    attention_bias(s, &mut spec)?;
    spec.attention.causal = causal(s, &[])?;
    let stretch = stretch(s)?;
    let rope = Rope { interleaved, ..rope::read(s, rules(sizes, defaults))? };
    let scale = (f64::from(plain + turned).powf(-0.5) * stretch * stretch) as f32;
    let kv_rank = s.size("kv_lora_rank", 512)?;
    spec.attention.head_dim = plain + turned;
    spec.attention.latent = Some(Latent { q_rank, kv_rank, plain, turned, value, scale });
    spec.layers = vec![Layer { window: None, rope: Some(rope), experts: None }; sizes.layers as usize];
    Ok((spec, sizes.layers))
}

/// What a scaled rotation makes of scores beyond the factor on its cosines and sines: `0.1 · mscale_all_dim · ln factor + 1`,
/// by which they are multiplied twice.
fn stretch(s: &Settings<'_>) -> Result<f64, FamilyError> {
    let scaling = s.table("rope_scaling")?.filter(|t| !t.is_empty());
    let Some(table) = scaling.or(s.table("rope_parameters")?) else { return Ok(1.0) };
    let kind = match table.text("rope_type")? {
        Some(kind) => Some(kind),
        None => table.text("type")?,
    };
    let all = table.number("mscale_all_dim")?.filter(|m| *m != 0.0);
    let (Some(all), true) = (all, kind.is_some_and(|kind| kind != "default")) else { return Ok(1.0) };
    let Some(factor) = table.positive("factor")? else {
        return Err(table.bad("factor", "nothing", "`mscale_all_dim` needs it", "Add it"));
    };
    Ok(if factor <= 1.0 { 1.0 } else { 0.1 * all * factor.ln() + 1.0 })
}

/// Defaults in which the two types differ: the first layer with experts, their width, and how many shared ones there are.
struct Own {
    first: u32,
    width: u32,
    shared: u32,
}

fn experts(
    s: &mut Settings<'_>,
    spec: &mut DecoderSpec,
    layers: u32,
    router: Router,
    own: Own,
) -> Result<(), FamilyError> {
    router.check(s, KEYS)?;
    let first = s.count("first_k_dense_replace", own.first)?;
    let width = s.size("moe_intermediate_size", own.width)?;
    let shared = s.size("n_shared_experts", own.shared)?;
    let Some(shared) = width.checked_mul(shared).filter(|n| *n < 1 << 28) else {
        return Err(s.bad("n_shared_experts", shared, format!("each is {width} wide"), "Correct it"));
    };
    let experts = Experts {
        router,
        width,
        activation: spec.feed_forward.activation,
        names: ExpertNames::MLP,
        shared: Some(SharedExpert {
            name: "mlp.shared_experts",
            width: shared,
            bias: spec.feed_forward.bias,
            gate: None,
        }),
    };
    for layer in first..layers {
        spec.layers[layer as usize].experts = Some(experts.clone());
    }
    Ok(())
}
