//! What each type of model reads from its config, and what a missing key means: the class defaults of `transformers`.
//!
//! One table per type. A key that stands in no table is not read by that type; see [`super::settings`] for what happens
//! to it.

use super::decoders::{COHERE, GEMMA2, GPT_NEOX, GPT2, OLMO2, PHI, STABLELM, STARCODER2};

/// What a missing key means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missing {
    /// An integer.
    Int(i64),
    /// A number.
    Num(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(&'static str),
    /// Null, or a value worked out from the other keys.
    Null,
}

/// One type of model.
#[derive(Debug)]
pub struct TypeSpec {
    /// `model_type` as it is written.
    pub name: &'static str,
    /// Other spellings in files.
    pub aliases: &'static [&'static str],
    /// Every key that the type reads, in the order in which they are written, rotary keys apart.
    pub keys: &'static [(&'static str, Missing)],
    /// Keys that its files hold and the reference does not read: dropped without a word.
    pub unread: &'static [&'static str],
    /// Keys for which null is the number of query heads, or switches something off.
    pub nullable: &'static [&'static str],
    /// Rotary base when no key gives one.
    pub theta: f64,
    /// True where a prefix of each head may be rotated, by `partial_rotary_factor`.
    pub partial_rotary: bool,
    /// Scalings that the type knows, beside `default`.
    pub scalings: &'static [&'static str],
    /// Whether its settings are taken over as they are: the program or the family that computes it knows their defaults.
    pub verbatim: bool,
}

use Missing::{Bool, Int, Null, Num, Text};

pub(super) const SCALINGS: &[&str] = &["linear", "dynamic", "yarn", "llama3", "longrope", "factors"];

/// All types that are read, apart from those with experts.
pub const TYPES: [TypeSpec; 17] = [
    LLAMA, MISTRAL, QWEN2, QWEN3, PHI3, GEMMA, GEMMA3, SMOLLM3, GRANITE, PHI, STARCODER2, STABLELM, COHERE, GPT2,
    GPT_NEOX, OLMO2, GEMMA2,
];

/// Types whose settings are taken over as they are.
pub const VERBATIM: [TypeSpec; 32] = [
    verbatim("audio-spectrogram-transformer"),
    verbatim("bart"),
    verbatim("bert"),
    verbatim("clip"),
    verbatim("clip_text_model"),
    verbatim("clip_vision_model"),
    verbatim("convnext"),
    verbatim("deberta-v2"),
    verbatim("deit"),
    verbatim("dinov2"),
    verbatim("distilbert"),
    verbatim("electra"),
    verbatim("llava"),
    verbatim("m2m_100"),
    verbatim("marian"),
    verbatim("mbart"),
    verbatim("mt5"),
    verbatim("modernbert"),
    verbatim("mpnet"),
    verbatim("nomic_bert"),
    verbatim("qwen2_5_vl"),
    verbatim("qwen2_vl"),
    verbatim("resnet"),
    verbatim("roberta"),
    verbatim("siglip"),
    verbatim("siglip_text_model"),
    verbatim("siglip_vision_model"),
    verbatim("t5"),
    verbatim("vit"),
    verbatim("vits"),
    verbatim("whisper"),
    verbatim("xlm-roberta"),
];

const fn verbatim(name: &'static str) -> TypeSpec {
    TypeSpec {
        name,
        aliases: &[],
        keys: &[],
        unread: &[],
        nullable: &[],
        theta: 10_000.0,
        partial_rotary: false,
        scalings: &[],
        verbatim: true,
    }
}

/// Every type that is read.
fn all() -> impl Iterator<Item = &'static TypeSpec> {
    TYPES.iter().chain(&super::sparse::TYPES).chain(&VERBATIM)
}

/// The names of all types that are read.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = all().map(|t| t.name).collect();
    names.sort_unstable();
    names
}

/// The type of a name or another spelling of it.
pub fn spec(name: &str) -> Option<&'static TypeSpec> {
    all().find(|t| t.name == name || t.aliases.contains(&name))
}

const LLAMA: TypeSpec = TypeSpec {
    name: "llama",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(11008)),
        ("vocab_size", Int(32000)),
        ("max_position_embeddings", Int(2048)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("attention_bias", Bool(false)),
        ("mlp_bias", Bool(false)),
    ],
    unread: &["partial_rotary_factor", "is_llama_config", "rope_interleaved"],
    nullable: &["num_key_value_heads", "head_dim"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const MISTRAL: TypeSpec = TypeSpec {
    name: "mistral",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Int(8)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(14336)),
        ("vocab_size", Int(32000)),
        ("max_position_embeddings", Int(131_072)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("sliding_window", Int(4096)),
    ],
    unread: &["partial_rotary_factor", "layer_types", "max_window_layers"],
    nullable: &["num_key_value_heads", "head_dim", "sliding_window"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const QWEN2: TypeSpec = TypeSpec {
    name: "qwen2",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Int(32)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(22016)),
        ("vocab_size", Int(151_936)),
        ("max_position_embeddings", Int(32768)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("use_sliding_window", Bool(false)),
        ("sliding_window", Int(4096)),
        ("max_window_layers", Int(28)),
        ("layer_types", Null),
    ],
    unread: &["partial_rotary_factor", "use_mrope"],
    nullable: &["num_key_value_heads", "head_dim", "sliding_window", "layer_types"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const QWEN3: TypeSpec = TypeSpec {
    name: "qwen3",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Int(32)),
        ("head_dim", Int(128)),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(22016)),
        ("vocab_size", Int(151_936)),
        ("max_position_embeddings", Int(32768)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("attention_bias", Bool(false)),
        ("use_sliding_window", Bool(false)),
        ("sliding_window", Int(4096)),
        ("max_window_layers", Int(28)),
        ("layer_types", Null),
    ],
    unread: &["partial_rotary_factor"],
    nullable: &["num_key_value_heads", "sliding_window", "layer_types"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const PHI3: TypeSpec = TypeSpec {
    name: "phi3",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(3072)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(8192)),
        ("vocab_size", Int(32064)),
        ("max_position_embeddings", Int(4096)),
        ("original_max_position_embeddings", Int(4096)),
        ("rms_norm_eps", Num(1e-5)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("sliding_window", Null),
    ],
    unread: &["embd_pdrop", "resid_pdrop"],
    nullable: &["num_key_value_heads", "head_dim", "sliding_window"],
    theta: 10_000.0,
    partial_rotary: true,
    scalings: &["longrope"],
    verbatim: false,
};

const GEMMA: TypeSpec = TypeSpec {
    name: "gemma",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(3072)),
        ("num_attention_heads", Int(16)),
        ("num_key_value_heads", Int(16)),
        ("head_dim", Int(256)),
        ("num_hidden_layers", Int(28)),
        ("intermediate_size", Int(24576)),
        ("vocab_size", Int(256_000)),
        ("max_position_embeddings", Int(8192)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Bool(true)),
        ("attention_bias", Bool(false)),
    ],
    unread: &["partial_rotary_factor", "hidden_activation"],
    nullable: &[],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const GEMMA3: TypeSpec = TypeSpec {
    name: "gemma3",
    aliases: &["gemma3_text"],
    keys: &[
        ("hidden_size", Int(2304)),
        ("num_attention_heads", Int(8)),
        ("num_key_value_heads", Int(4)),
        ("head_dim", Int(256)),
        ("num_hidden_layers", Int(26)),
        ("intermediate_size", Int(9216)),
        ("vocab_size", Int(262_208)),
        ("max_position_embeddings", Int(131_072)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_activation", Text("gelu_pytorch_tanh")),
        ("tie_word_embeddings", Bool(true)),
        ("attention_bias", Bool(false)),
        ("query_pre_attn_scalar", Num(256.0)),
        ("final_logit_softcapping", Null),
        ("sliding_window", Int(4096)),
        ("sliding_window_pattern", Int(6)),
        ("layer_types", Null),
    ],
    unread: &["partial_rotary_factor", "attn_logit_softcapping", "hidden_act", "_sliding_window_pattern"],
    nullable: &["final_logit_softcapping", "sliding_window", "layer_types"],
    theta: 1_000_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const SMOLLM3: TypeSpec = TypeSpec {
    name: "smollm3",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(2048)),
        ("num_attention_heads", Int(16)),
        ("num_key_value_heads", Int(4)),
        ("head_dim", Null),
        ("num_hidden_layers", Int(36)),
        ("intermediate_size", Int(11008)),
        ("vocab_size", Int(128_256)),
        ("max_position_embeddings", Int(32768)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(true)),
        ("attention_bias", Bool(false)),
        ("mlp_bias", Bool(false)),
        ("no_rope_layers", Null),
        ("no_rope_layer_interval", Int(4)),
        ("use_sliding_window", Bool(false)),
        ("sliding_window", Null),
        ("layer_types", Null),
    ],
    unread: &["partial_rotary_factor", "max_window_layers"],
    nullable: &["num_key_value_heads", "head_dim", "no_rope_layers", "sliding_window", "layer_types"],
    theta: 2_000_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};

const GRANITE: TypeSpec = TypeSpec {
    name: "granite",
    aliases: &[],
    keys: &[
        ("hidden_size", Int(4096)),
        ("num_attention_heads", Int(32)),
        ("num_key_value_heads", Null),
        ("head_dim", Null),
        ("num_hidden_layers", Int(32)),
        ("intermediate_size", Int(11008)),
        ("vocab_size", Int(32000)),
        ("max_position_embeddings", Int(2048)),
        ("rms_norm_eps", Num(1e-6)),
        ("hidden_act", Text("silu")),
        ("tie_word_embeddings", Bool(false)),
        ("attention_bias", Bool(false)),
        ("mlp_bias", Bool(false)),
        ("embedding_multiplier", Num(1.0)),
        ("logits_scaling", Num(1.0)),
        ("residual_multiplier", Num(1.0)),
        ("attention_multiplier", Num(1.0)),
    ],
    unread: &["partial_rotary_factor"],
    nullable: &["num_key_value_heads", "head_dim"],
    theta: 10_000.0,
    partial_rotary: false,
    scalings: SCALINGS,
    verbatim: false,
};
