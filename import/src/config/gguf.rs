//! Settings of a GGUF file, under Hugging Face's names, so that both kinds of source take the same road from here.

mod about;
mod deepseek;
mod experts;
mod gemma4;
mod keys;
mod verbatim;

use serde_json::{Map, Value as Json};

use super::SourceConfig;
use super::defaults::{self, TypeSpec};
use crate::error::{ImportError, Result, clip};
use crate::gguf::GgufFile;
use crate::names::{ARCHITECTURES, GgufArch, architecture};
use keys::{Keys, Pattern};
pub use verbatim::{VerbatimFacts, read as read_verbatim};

/// The three lists of rotary divisors, from tensors.
#[derive(Debug, Default)]
pub struct RopeTensors {
    /// `rope_freqs.weight`.
    pub always: Option<Vec<f32>>,
    /// `rope_factors_long.weight`.
    pub long: Option<Vec<f32>>,
    /// `rope_factors_short.weight`.
    pub short: Option<Vec<f32>>,
}

/// Facts that only the tensors tell.
#[derive(Debug, Default)]
pub struct TensorFacts {
    /// Rows of the embedding.
    pub vocab_rows: u64,
    /// There is a head of its own.
    pub has_head: bool,
    /// q has a bias.
    pub attention_bias: bool,
    /// The feed-forward has biases.
    pub mlp_bias: bool,
    /// q and k have norms.
    pub qk_norms: bool,
    /// Rotary divisors.
    pub rope: RopeTensors,
    /// Rows of the second embedding of gemma 4.
    pub per_layer_rows: Option<u64>,
    /// A layer has keys and no values.
    pub keys_are_values: bool,
}

/// The architecture of a file; an error that lists the known ones for any other.
pub fn arch_of(file: &GgufFile) -> Result<&'static GgufArch> {
    if let Some(kind) = file.text("general.type")?
        && !matches!(kind, "model" | "")
    {
        return Err(ImportError::unsupported(
            file.path(),
            "key `general.type`",
            format!("the file holds `{}`, not a model", clip(kind)),
            "Name the file of the model itself.",
        ));
    }
    let name = file.text("general.architecture")?.unwrap_or_default();
    architecture(name).ok_or_else(|| {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|a| a.name).collect();
        let cause =
            if name.is_empty() { "it is missing".into() } else { format!("architecture `{}` is not read", clip(name)) };
        ImportError::unsupported(
            file.path(),
            "key `general.architecture`",
            cause,
            format!("Architectures that are read: {}.", known.join(", ")),
        )
    })
}

/// Query heads and key heads, for the row order of q and k.
pub fn heads(file: &GgufFile, arch: &GgufArch) -> Result<(u64, u64)> {
    let keys = Keys::new(file, arch);
    let heads = keys.uint("attention.head_count")?.unwrap_or(0);
    Ok((heads, keys.uint("attention.head_count_kv")?.unwrap_or(heads)))
}

/// The table of a type.
fn spec_of(file: &GgufFile, model_type: &str) -> Result<&'static TypeSpec> {
    defaults::spec(model_type).ok_or_else(|| {
        ImportError::unsupported(file.path(), "key `general.architecture`", "it has no table", "Report this.")
    })
}

/// Reads the settings of a file.
pub fn read(file: &GgufFile, arch: &'static GgufArch, facts: &TensorFacts, ignore: &[String]) -> Result<SourceConfig> {
    match arch.name {
        "gemma4" => return gemma4::read(file, arch, facts, ignore),
        "deepseek2" => return deepseek::read(file, arch, facts, ignore),
        _ => {}
    }
    let keys = Keys::new(file, arch);
    let mut warnings = Vec::new();
    let window = keys.uint("attention.sliding_window")?.filter(|&w| w > 0);
    // Mistral's files come under llama's name; a window gives them away.
    let experts = keys.uint("expert_count")?.filter(|&n| n > 0);
    let model_type = match arch.name {
        "llama" if experts.is_some() => "mixtral",
        "llama" if window.is_some() => "mistral",
        _ => arch.model_type,
    };
    let spec = spec_of(file, model_type)?;
    let mut out = Map::new();
    let hidden = keys.needed("embedding_length")?;
    let heads = keys.needed("attention.head_count")?;
    let layers = keys.needed("block_count")?;
    out.insert("hidden_size".into(), hidden.into());
    out.insert("num_attention_heads".into(), heads.into());
    let reads = |key: &str| spec.keys.iter().any(|(k, _)| *k == key);
    let kv = keys.uint("attention.head_count_kv")?.unwrap_or(heads);
    if reads("num_key_value_heads") {
        out.insert("num_key_value_heads".into(), kv.into());
    } else if kv != heads {
        return Err(keys.unsupported("attention.head_count_kv", format!("it is {kv}, and {heads} heads of queries")));
    }
    out.insert("num_hidden_layers".into(), layers.into());
    let inner = keys.needed("feed_forward_length")?;
    out.insert("intermediate_size".into(), inner.into());
    out.insert("vocab_size".into(), facts.vocab_rows.into());
    let length = keys.needed("context_length")?;
    out.insert("max_position_embeddings".into(), length.into());
    let head_dim = head_dim(&keys, hidden, heads)?;
    out.insert("head_dim".into(), head_dim.into());
    let short = match arch.layer_norms {
        true => "attention.layer_norm_epsilon",
        false => "attention.layer_norm_rms_epsilon",
    };
    let epsilon = keys.needed_float(short)?;
    let own = ["rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"].into_iter().find(|k| reads(k));
    out.insert(own.unwrap_or("rms_norm_eps").into(), epsilon.into());
    out.insert("tie_word_embeddings".into(), (!facts.has_head).into());
    for (key, fact) in [
        ("attention_bias", facts.attention_bias),
        ("use_bias", facts.attention_bias),
        ("use_qkv_bias", facts.attention_bias),
        ("mlp_bias", facts.mlp_bias),
        ("use_qk_norm", facts.qk_norms),
    ] {
        if reads(key) {
            out.insert(key.into(), fact.into());
        }
    }
    if reads("use_parallel_residual") {
        let parallel = keys.bool("use_parallel_residual")?;
        out.insert("use_parallel_residual".into(), parallel.unwrap_or(false).into());
    }
    if let Some(false) = keys.bool("attention.causal")? {
        out.insert("is_causal".into(), false.into());
    }
    keys.uint("vocab_size")?;
    if let Some(count) = experts.filter(|_| arch.experts.is_some()) {
        experts::read(&mut out, &keys, arch, count, inner)?;
    }
    windows(&mut out, &keys, arch, window, layers)?;
    if !spec.scalings.is_empty() {
        rope(&mut out, &keys, spec, facts, head_dim)?;
    }
    multipliers(&mut out, &keys, arch, hidden, heads, head_dim, layers, &mut warnings)?;
    keys.refuse_unread(ignore, &mut warnings)?;

    about::source_config(file, spec, out, None, warnings)
}

/// What decoders with readers of their own say alike.
fn usual(out: &mut Map<String, Json>, keys: &Keys<'_>, facts: &TensorFacts) -> Result<()> {
    for (key, short) in [
        ("hidden_size", "embedding_length"),
        ("num_attention_heads", "attention.head_count"),
        ("num_hidden_layers", "block_count"),
        ("max_position_embeddings", "context_length"),
    ] {
        out.insert(key.into(), keys.needed(short)?.into());
    }
    out.insert("vocab_size".into(), facts.vocab_rows.into());
    keys.uint("vocab_size")?;
    out.insert("rms_norm_eps".into(), keys.needed_float("attention.layer_norm_rms_epsilon")?.into());
    out.insert("tie_word_embeddings".into(), (!facts.has_head).into());
    out.insert("attention_bias".into(), facts.attention_bias.into());
    Ok(())
}

fn head_dim(keys: &Keys<'_>, hidden: u64, heads: u64) -> Result<u64> {
    let key = keys.uint("attention.key_length")?;
    let value = keys.uint("attention.value_length")?;
    if let (Some(k), Some(v)) = (key, value)
        && k != v
    {
        return Err(keys.unsupported(
            "attention.value_length",
            format!("it is {v} and `attention.key_length` is {k}; heads of two sizes are not read"),
        ));
    }
    match key.or(value) {
        Some(n) => Ok(n),
        None if heads > 0 && hidden.is_multiple_of(heads) => Ok(hidden / heads),
        None => {
            Err(keys.unsupported("attention.head_count", format!("{hidden} values cannot be split into {heads} heads")))
        }
    }
}

fn windows(
    out: &mut Map<String, Json>,
    keys: &Keys<'_>,
    arch: &GgufArch,
    window: Option<u64>,
    layers: u64,
) -> Result<()> {
    let pattern = keys.pattern("attention.sliding_window_pattern", layers)?;
    match arch.name {
        "gemma3" => {
            out.insert("sliding_window".into(), window.map_or(Json::Null, Json::from));
            match pattern {
                Some(Pattern::Every(n)) => {
                    out.insert("sliding_window_pattern".into(), n.into());
                }
                Some(Pattern::List(list)) => {
                    let words: Vec<&str> =
                        list.iter().map(|&s| if s { "sliding_attention" } else { "full_attention" }).collect();
                    out.insert("layer_types".into(), words.into());
                }
                None => {}
            }
        }
        "phi3" => {
            out.insert("sliding_window".into(), window.map_or(Json::Null, Json::from));
        }
        "llama" | "gemma2" => {
            if let Some(window) = window {
                out.insert("sliding_window".into(), window.into());
            }
        }
        _ => {
            if let Some(window) = window {
                return Err(keys.unsupported(
                    "attention.sliding_window",
                    format!("a window of {window} is not read for this architecture, as the file does not say which layers have it"),
                ));
            }
        }
    }
    // GGUF says nothing of layers without rotation; its reader takes every fourth for SmolLM3, which is the default too.
    Ok(())
}

fn rope(
    out: &mut Map<String, Json>,
    keys: &Keys<'_>,
    spec: &TypeSpec,
    facts: &TensorFacts,
    head_dim: u64,
) -> Result<()> {
    let arch = keys.arch;
    // Its reader takes 10,000 when the key is missing, whatever the type's own default.
    let theta = keys.float("rope.freq_base")?.unwrap_or(10_000.0);
    out.insert("rope_theta".into(), theta.into());
    let local = keys.float("rope.freq_base_swa")?;
    if let Some(local) = local {
        if arch.name == "gemma3" {
            out.insert("rope_local_base_freq".into(), local.into());
        } else if local != theta {
            return Err(keys.unsupported("rope.freq_base_swa", format!("a second base, {local}, is not read here")));
        }
    }
    let width = keys.uint("rope.dimension_count")?.unwrap_or(head_dim);
    if spec.partial_rotary {
        out.insert("partial_rotary_factor".into(), (width as f64 / head_dim as f64).into());
    } else if width != head_dim {
        return Err(keys.unsupported(
            "rope.dimension_count",
            format!("{width} of {head_dim} lanes are rotated; this architecture rotates whole heads"),
        ));
    }
    if arch.name == "granite" && keys.bool("rope.scaling.finetuned")? == Some(false) {
        return Err(keys.unsupported("rope.scaling.finetuned", "layers without rotation are not read here".into()));
    }
    let factor = match keys.float("rope.scaling.factor")? {
        Some(f) => Some(f),
        None => keys.float("rope.scale_linear")?,
    }
    .filter(|&f| f != 0.0);
    let original = keys.uint("rope.scaling.original_context_length")?;
    let attention = keys.float("rope.scaling.attn_factor")?.filter(|&f| f != 1.0);
    let kind = keys.text("rope.scaling.type")?;
    let kind = kind.as_deref().unwrap_or("linear");
    let list = |values: &[f32]| Json::from(values.iter().map(|&v| crate::gguf::shortest(v)).collect::<Vec<f64>>());
    let mut scaling = Map::new();
    if let (Some(long), Some(short)) = (&facts.rope.long, &facts.rope.short) {
        scaling.insert("rope_type".into(), "longrope".into());
        scaling.insert("short_factor".into(), list(short));
        scaling.insert("long_factor".into(), list(long));
        // The reader multiplies by this number, 1 when the key is missing.
        scaling.insert("attention_factor".into(), keys.float("rope.scaling.attn_factor")?.unwrap_or(1.0).into());
        if let Some(original) = original {
            out.insert("original_max_position_embeddings".into(), original.into());
        }
    } else if facts.rope.long.is_some() || facts.rope.short.is_some() {
        return Err(ImportError::malformed(
            keys.file.path(),
            "tensors `rope_factors_long.weight`, `rope_factors_short.weight`",
            "one of the two is missing",
            "Convert the model again with a current converter.",
        ));
    } else if let Some(divisors) = facts.rope.always.as_ref().filter(|d| d.iter().any(|&x| x != 1.0)) {
        if factor.is_some_and(|f| f != 1.0) {
            return Err(keys.unsupported(
                "rope.scaling.factor",
                "scaling by a factor beside the tensor `rope_freqs.weight` is not read".into(),
            ));
        }
        scaling.insert("rope_type".into(), "factors".into());
        scaling.insert("factors".into(), list(divisors));
    } else {
        match (kind, factor) {
            ("none", _) | ("linear", None | Some(1.0)) => {}
            ("linear", Some(factor)) => {
                scaling.insert("rope_type".into(), "linear".into());
                scaling.insert("factor".into(), factor.into());
            }
            ("yarn", factor) => yarn(&mut scaling, keys, factor, original)?,
            ("longrope", _) => {
                return Err(ImportError::malformed(
                    keys.file.path(),
                    "tensors `rope_factors_long.weight`, `rope_factors_short.weight`",
                    "scaling `longrope` needs them, and they are missing",
                    "Convert the model again with a current converter.",
                ));
            }
            (other, _) => {
                return Err(keys.unsupported("rope.scaling.type", format!("scaling `{}` is not read", clip(other))));
            }
        }
    }
    let longrope = scaling.get("rope_type").and_then(Json::as_str) == Some("longrope");
    if attention.is_some() && !longrope {
        return Err(keys.unsupported(
            "rope.scaling.attn_factor",
            "a factor on the rotated values is read only beside longrope".into(),
        ));
    }
    if !scaling.is_empty() {
        out.insert("rope_scaling".into(), Json::Object(scaling));
    }
    Ok(())
}

fn yarn(scaling: &mut Map<String, Json>, keys: &Keys<'_>, factor: Option<f64>, original: Option<u64>) -> Result<()> {
    if keys.float("rope.scaling.yarn_ext_factor")?.is_some_and(|f| f != 1.0 && f >= 0.0) {
        return Err(keys.unsupported("rope.scaling.yarn_ext_factor", "only 1 is read".into()));
    }
    if let Some(tenth) = keys.float("rope.scaling.yarn_log_multiplier")?.filter(|&f| f != 0.0) {
        if keys.arch.name != "deepseek2" {
            return Err(keys.unsupported("rope.scaling.yarn_log_multiplier", "it is not read here".into()));
        }
        // Readers of these files take both to be the same.
        for key in ["mscale", "mscale_all_dim"] {
            scaling.insert(key.into(), (tenth * 10.0).into());
        }
    }
    scaling.insert("rope_type".into(), "yarn".into());
    if let Some(factor) = factor {
        scaling.insert("factor".into(), factor.into());
    }
    if let Some(original) = original {
        scaling.insert("original_max_position_embeddings".into(), original.into());
    }
    for (key, of) in [
        ("attention_factor", "rope.scaling.yarn_attn_factor"),
        ("beta_fast", "rope.scaling.yarn_beta_fast"),
        ("beta_slow", "rope.scaling.yarn_beta_slow"),
    ] {
        if let Some(value) = keys.float(of)? {
            scaling.insert(key.into(), value.into());
        }
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "numbers that are at hand where it is called, once")]
fn multipliers(
    out: &mut Map<String, Json>,
    keys: &Keys<'_>,
    arch: &GgufArch,
    hidden: u64,
    heads: u64,
    head_dim: u64,
    layers: u64,
    warnings: &mut Vec<String>,
) -> Result<()> {
    match arch.name {
        "granite" => {
            for (key, of) in [
                ("embedding_multiplier", "embedding_scale"),
                ("residual_multiplier", "residual_scale"),
                ("logits_scaling", "logit_scale"),
            ] {
                if let Some(value) = keys.float(of)?.filter(|&v| v != 0.0) {
                    out.insert(key.into(), value.into());
                }
            }
            let scale = keys.float("attention.scale")?.filter(|&v| v != 0.0);
            if scale.is_none() {
                warnings.push(
                    "`granite.attention.scale` is missing; the usual scale, head size to the power −1/2, has been written.".into(),
                );
            }
            let scale = scale.unwrap_or_else(|| (head_dim as f64).powf(-0.5));
            out.insert("attention_multiplier".into(), scale.into());
        }
        "command-r" => {
            if let Some(scale) = keys.float("logit_scale")?.filter(|&s| s != 0.0) {
                out.insert("logit_scale".into(), scale.into());
            }
        }
        "gemma2" => {
            for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
                if let Some(cap) = keys.float(key)? {
                    out.insert(key.into(), cap.into());
                }
            }
            // As for gemma3 below; the 27B has 46 layers.
            let scalar = if layers == 46 { hidden as f64 / heads.max(1) as f64 } else { head_dim as f64 };
            out.insert("query_pre_attn_scalar".into(), scalar.into());
        }
        "gemma3" => {
            if let Some(cap) = keys.float("final_logit_softcapping")?.filter(|&c| c != 0.0) {
                out.insert("final_logit_softcapping".into(), cap.into());
            }
            // The file does not hold the score scale. Its reader takes the head size, but hidden / heads for the one
            // published model of 62 layers, the 27B.
            let scalar = if layers == 62 { hidden as f64 / heads.max(1) as f64 } else { head_dim as f64 };
            out.insert("query_pre_attn_scalar".into(), scalar.into());
        }
        _ => {}
    }
    Ok(())
}
