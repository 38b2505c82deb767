//! The tables of decoders beside those of [`super::defaults`].

use serde_json::{Map, Value};
use std::path::Path;

use super::defaults::Missing::{Bool, Int, Null, Num, Text};
use super::defaults::{SCALINGS, TypeSpec};
use crate::error::{ImportError, Result, clip};

pub(super) const PHI: TypeSpec = TypeSpec {
    name: "phi",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(2048)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(24)),
        ("intermediate_size", Int(8192)),
        ("vocab_size", Int(51200)),
        ("max_position_embeddings", Int(2048)),
        ("layer_norm_eps", Num(1e-5)),
        ("hidden_act", Text("gelu_new")),
        ("tie_word_embeddings", Bool(false)),
        ("qk_layernorm", Bool(false)),
        ("partial_rotary_factor", Num(0.5)),
    ],
    unread: &[],
    nullable: &["num_key_value_heads", "head_dim"],
    theta: 10_000.0,
    partial_rotary: true,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const STARCODER2: TypeSpec = TypeSpec {
    name: "starcoder2",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(3072)),
        ("num_attention_heads", Int(24)),
        ("num_key_value_heads", Int(2)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(30)),
        ("intermediate_size", Int(12288)),
        ("vocab_size", Int(49152)),
        ("max_position_embeddings", Int(4096)),
        ("norm_epsilon", Num(1e-5)),
        ("hidden_act", Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Bool(true)),
        ("use_bias", Bool(true)),
        ("sliding_window", Null),
    ],
    unread: &["partial_rotary_factor", "layer_types", "residual_dropout", "embedding_dropout"],
    nullable: &["head_dim", "sliding_window"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const STABLELM: TypeSpec = TypeSpec {
    name: "stablelm",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(2560)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Int(32)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(6912)),
        ("vocab_size", Int(50304)),
        ("max_position_embeddings", Int(4096)),
        ("layer_norm_eps", Num(1e-5)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("use_qkv_bias", Bool(false)),
        ("qk_layernorm", Bool(false)),
        ("use_parallel_residual", Bool(false)),
        ("partial_rotary_factor", Num(0.25)),
    ],
    unread: &[],
    nullable: &["head_dim"],
    theta: 10_000.0,
    partial_rotary: true,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const COHERE: TypeSpec = TypeSpec {
    name: "cohere",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(8192)),
        ("num_attention_heads", Int(64)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(40)),
        ("intermediate_size", Int(22528)),
        ("vocab_size", Int(256_000)),
        ("max_position_embeddings", Int(8192)),
        ("layer_norm_eps", Num(1e-5)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(true)),
        ("attention_bias", Bool(false)),
        ("logit_scale", Num(0.0625)),
        ("use_qk_norm", Bool(false)),
    ],
    unread: &["partial_rotary_factor", "model_max_length"],
    nullable: &["num_key_value_heads", "head_dim", "use_qk_norm"],
    theta: 500_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const GPT2: TypeSpec = TypeSpec {
    name: "gpt2",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(768)),
        ("num_attention_heads", Int(12)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(12)),
        ("intermediate_size", Null),
        ("vocab_size", Int(50257)),
        ("max_position_embeddings", Int(1024)),
        ("layer_norm_epsilon", Num(1e-5)),
        ("activation_function", Text("gelu_new")),
        ("tie_word_embeddings", Bool(true)),
        ("scale_attn_weights", Bool(true)),
        ("scale_attn_by_inverse_layer_idx", Bool(false)),
    ],
    // In single precision `reorder_and_upcast_attn` is another order of the same computation. `n_ctx` is an older copy
    // of the number of positions, and a summary stands where there is no language model's head.
    unread: &[
        "attn_pdrop",
        "n_ctx",
        "reorder_and_upcast_attn",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ],
    nullable: &["head_dim", "intermediate_size"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: &[],
    verbatim: false,
};

pub(super) const GPT_NEOX: TypeSpec = TypeSpec {
    name: "gpt_neox",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(6144)),
        ("num_attention_heads", Int(64)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(44)),
        ("intermediate_size", Int(24576)),
        ("vocab_size", Int(50432)),
        ("max_position_embeddings", Int(2048)),
        ("layer_norm_eps", Num(1e-5)),
        ("hidden_act", Text("gelu")),
        ("tie_word_embeddings", Bool(false)),
        ("attention_bias", Bool(true)),
        ("use_parallel_residual", Bool(true)),
        ("partial_rotary_factor", Num(0.25)),
    ],
    unread: &[],
    nullable: &["head_dim"],
    theta: 10_000.0,
    partial_rotary: true,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const OLMO2: TypeSpec = TypeSpec {
    name: "olmo2",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(11008)),
        ("vocab_size", Int(50304)),
        ("max_position_embeddings", Int(2048)),
        ("rms_norm_eps", Num(1e-5)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("attention_bias", Bool(false)),
    ],
    unread: &["partial_rotary_factor"],
    nullable: &["num_key_value_heads", "head_dim"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

pub(super) const GEMMA2: TypeSpec = TypeSpec {
    name: "gemma2",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(2304)),
        ("num_attention_heads", Int(8)),
        ("num_key_value_heads", Int(4)),
        ("head_dim", Int(256)),
        ("num_hidden_layers", Int(26)),
        ("intermediate_size", Int(9216)),
        ("vocab_size", Int(256_000)),
        ("max_position_embeddings", Int(8192)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_activation", Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Bool(true)),
        ("attention_bias", Bool(false)),
        ("query_pre_attn_scalar", Num(256.0)),
        ("attn_logit_softcapping", Num(50.0)),
        ("final_logit_softcapping", Num(30.0)),
        ("sliding_window", Int(4096)),
        ("layer_types", Null),
    ],
    unread: &["partial_rotary_factor", "hidden_act", "sliding_window_size"],
    nullable: &["attn_logit_softcapping", "final_logit_softcapping", "sliding_window", "layer_types"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

/// A type's own names of settings that others have too.
fn own_names(model_type: &str) -> &'static [(&'static str, &'static str)] {
    match model_type {
        "gpt2" => &[
            ("n_embd", "hidden_size"),
            ("n_head", "num_attention_heads"),
            ("n_layer", "num_hidden_layers"),
            ("n_positions", "max_position_embeddings"),
            ("n_inner", "intermediate_size"),
        ],
        "gpt_neox" => &[("rotary_emb_base", "rope_theta"), ("rotary_pct", "partial_rotary_factor")],
        _ => &[],
    }
}

/// Gives settings that a type has under names of its own those that all types use.
///
/// # Errors
/// A setting that stands there under both names with two values.
pub(super) fn rename(model_type: &str, settings: &mut Map<String, Value>, path: &Path) -> Result<()> {
    for &(own, usual) in own_names(model_type) {
        let Some(value) = settings.remove(own) else { continue };
        let same = |other: &Value| *other == value || other.as_f64().is_some_and(|x| value.as_f64() == Some(x));
        if let Some(other) = settings.get(usual).filter(|other| !other.is_null() && !same(other)) {
            return Err(ImportError::malformed(
                path,
                format!("setting `{own}`"),
                format!(
                    "it is {}, and `{usual}`, which means the same, is {}",
                    clip(&value.to_string()),
                    clip(&other.to_string())
                ),
                "Remove one of them.",
            ));
        }
        settings.insert(usual.to_owned(), value);
    }
    Ok(())
}
