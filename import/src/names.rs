//! Tensor names of GGUF files as Hugging Face names, by architecture.

pub mod deepseek;
mod gemma4;
mod verbatim;

use crate::scheme;
use tallow_frontends::families::experts::ExpertNames;

/// What a GGUF tensor becomes.
#[derive(Debug, PartialEq, Eq)]
pub enum Mapped {
    /// A tensor of this name.
    Tensor(String),
    /// Divisors of the rotary frequencies: they go into the config.
    RopeFactors(RopeFactors),
    /// Not needed: readers compute it.
    Harmless,
    /// No tensor of this architecture.
    Unknown,
}

/// The three tensors of rotary divisors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeFactors {
    /// `rope_freqs.weight`, in force always.
    Always,
    /// `rope_factors_long.weight`, in force past the original length.
    Long,
    /// `rope_factors_short.weight`, in force up to it.
    Short,
}

/// How an architecture's GGUF files differ from the Hugging Face layout.
#[derive(Clone, Copy, Debug)]
pub struct GgufArch {
    /// `general.architecture`.
    pub name: &'static str,
    /// `model_type` of the result.
    pub model_type: &'static str,
    /// Rows of q and k stand in the order of neighbouring rotary pairs.
    pub interleaved: bool,
    /// Norm weights are stored as 1 + w.
    pub norms_plus_one: bool,
    /// Two more norms a layer, under gemma's names.
    pub four_norms: bool,
    /// q, k, v in one tensor; gate and up in one, where there is a gate.
    pub fused: bool,
    /// Of q, k and v in one tensor, the file has all of q first, and Hugging Face one head after another.
    pub by_head: bool,
    /// q and k have norms.
    pub qk_norms: bool,
    /// Norms subtract the mean, and their ε has a key of its own.
    pub layer_norms: bool,
    /// The names of experts, where layers may have some.
    pub experts: Option<ExpertNames>,
    /// The names of all tensors of a type whose settings are taken over as they are.
    pub verbatim: Option<&'static verbatim::Names>,
}

const PLAIN: GgufArch = GgufArch {
    name: "",
    model_type: "",
    interleaved: false,
    norms_plus_one: false,
    four_norms: false,
    fused: false,
    by_head: false,
    qk_norms: false,
    layer_norms: false,
    experts: None,
    verbatim: None,
};

const LAYER_NORMS: GgufArch = GgufArch { layer_norms: true, ..PLAIN };

/// The architectures that are read.
pub const ARCHITECTURES: [GgufArch; 23] = [
    GgufArch { name: "llama", model_type: "llama", interleaved: true, experts: Some(ExpertNames::MIXTRAL), ..PLAIN },
    GgufArch { name: "qwen2", model_type: "qwen2", ..PLAIN },
    GgufArch { name: "qwen2moe", model_type: "qwen2_moe", experts: Some(ExpertNames::MLP), ..PLAIN },
    GgufArch { name: "qwen3", model_type: "qwen3", qk_norms: true, ..PLAIN },
    GgufArch { name: "qwen3moe", model_type: "qwen3_moe", qk_norms: true, experts: Some(ExpertNames::MLP), ..PLAIN },
    GgufArch { name: "phi3", model_type: "phi3", fused: true, ..PLAIN },
    GgufArch { name: "smollm3", model_type: "smollm3", interleaved: true, ..PLAIN },
    GgufArch { name: "granite", model_type: "granite", interleaved: true, ..PLAIN },
    GgufArch { name: "gemma", model_type: "gemma", norms_plus_one: true, ..PLAIN },
    GgufArch { name: "gemma2", model_type: "gemma2", norms_plus_one: true, four_norms: true, ..PLAIN },
    GgufArch { name: "gemma3", model_type: "gemma3", norms_plus_one: true, four_norms: true, qk_norms: true, ..PLAIN },
    GgufArch { name: "gemma4", model_type: "gemma4", four_norms: true, qk_norms: true, ..PLAIN },
    // Or deepseek_v2, as the settings say; names are the same.
    GgufArch { name: "deepseek2", model_type: "deepseek_v3", experts: Some(ExpertNames::MLP), ..PLAIN },
    GgufArch { name: "olmo2", model_type: "olmo2", qk_norms: true, ..PLAIN },
    GgufArch { name: "starcoder2", model_type: "starcoder2", ..LAYER_NORMS },
    GgufArch { name: "phi2", model_type: "phi", ..LAYER_NORMS },
    GgufArch { name: "stablelm", model_type: "stablelm", ..LAYER_NORMS },
    GgufArch { name: "command-r", model_type: "cohere", qk_norms: true, ..LAYER_NORMS },
    GgufArch { name: "gpt2", model_type: "gpt2", fused: true, ..LAYER_NORMS },
    GgufArch { name: "gptneox", model_type: "gpt_neox", fused: true, by_head: true, ..LAYER_NORMS },
    GgufArch { name: "bert", model_type: "bert", verbatim: Some(&verbatim::BERT), ..PLAIN },
    GgufArch { name: "nomic-bert", model_type: "nomic_bert", verbatim: Some(&verbatim::NOMIC_BERT), ..PLAIN },
    GgufArch { name: "t5", model_type: "t5", verbatim: Some(&verbatim::T5), ..PLAIN },
];

/// Of the files of architecture bert those without token types.
pub const DISTILBERT: GgufArch =
    GgufArch { name: "bert", model_type: "distilbert", verbatim: Some(&verbatim::DISTILBERT), ..PLAIN };

/// The architecture of a name.
pub fn architecture(name: &str) -> Option<&'static GgufArch> {
    ARCHITECTURES.iter().find(|a| a.name == name)
}

/// The Hugging Face name of a GGUF tensor. `gated` says that the feed-forwards have gates, where a type is known with and
/// without.
pub fn hugging_face_name(arch: &GgufArch, gguf: &str, gated: bool) -> Mapped {
    if let Some(names) = arch.verbatim {
        return names.of(gguf, gated);
    }
    let scheme = scheme::of_type(arch.model_type);
    if let Some(name) = gemma4::outer(gguf).filter(|_| arch.name == "gemma4") {
        return Mapped::Tensor(format!("{}{name}", scheme.prefix));
    }
    match gguf {
        "token_embd.weight" => return Mapped::Tensor(scheme.embedding_weight()),
        "position_embd.weight" if arch.model_type == "gpt2" => {
            return Mapped::Tensor(format!("{}wpe.weight", scheme.prefix));
        }
        "output_norm.weight" => return Mapped::Tensor(format!("{}{}.weight", scheme.prefix, scheme.norm)),
        "output_norm.bias" => return Mapped::Tensor(format!("{}{}.bias", scheme.prefix, scheme.norm)),
        "output.weight" => return Mapped::Tensor(scheme.head_weight()),
        "output.bias" => return Mapped::Tensor(format!("{}.bias", scheme.head)),
        "rope_freqs.weight" => return Mapped::RopeFactors(RopeFactors::Always),
        "rope_factors_long.weight" => return Mapped::RopeFactors(RopeFactors::Long),
        "rope_factors_short.weight" => return Mapped::RopeFactors(RopeFactors::Short),
        _ => {}
    }
    let Some((layer, part)) = gguf.strip_prefix("blk.").and_then(|r| r.split_once('.')) else {
        return Mapped::Unknown;
    };
    let Some(layer) = layer_number(layer) else {
        return Mapped::Unknown;
    };
    let own = match arch.name {
        "gemma4" => gemma4::inner(part),
        "deepseek2" => deepseek::inner(part),
        _ => None,
    };
    if let Some(name) = own {
        return Mapped::Tensor(format!("{}{}.{layer}.{name}", scheme.prefix, scheme.layers));
    }
    let Some((part, kind)) = part.rsplit_once('.') else {
        return Mapped::Unknown;
    };
    if part == "attn_rot_embd" {
        return Mapped::Harmless;
    }
    if !matches!(kind, "weight" | "bias") {
        return Mapped::Unknown;
    }
    match part_name(arch, part) {
        Some(name) => Mapped::Tensor(format!("{}{}.{layer}.{name}.{kind}", scheme.prefix, scheme.layers)),
        None => Mapped::Unknown,
    }
}

/// The name of a tensor in a table of whole names.
fn find(table: &[(&str, &'static str)], gguf: &str) -> Option<&'static str> {
    table.iter().find(|(of, _)| *of == gguf).map(|(_, name)| *name)
}

/// The number of a layer in its only spelling, so that two names cannot mean one tensor.
fn layer_number(layer: &str) -> Option<u64> {
    let plain =
        layer.len() <= 6 && layer.bytes().all(|b| b.is_ascii_digit()) && (layer == "0" || !layer.starts_with('0'));
    layer.parse().ok().filter(|_| plain)
}

/// The Hugging Face name of a part of a layer.
fn part_name(arch: &GgufArch, part: &str) -> Option<&'static str> {
    let own: &[(&str, &'static str)] = match arch.model_type {
        "phi" => &[("attn_output", "self_attn.dense"), ("ffn_up", "mlp.fc1"), ("ffn_down", "mlp.fc2")],
        "starcoder2" => &[("ffn_up", "mlp.c_fc"), ("ffn_down", "mlp.c_proj")],
        "gpt2" => &[
            ("attn_norm", "ln_1"),
            ("attn_qkv", "attn.c_attn"),
            ("attn_output", "attn.c_proj"),
            ("ffn_norm", "ln_2"),
            ("ffn_up", "mlp.c_fc"),
            ("ffn_down", "mlp.c_proj"),
        ],
        "gpt_neox" => &[
            ("attn_qkv", "attention.query_key_value"),
            ("attn_output", "attention.dense"),
            ("ffn_up", "mlp.dense_h_to_4h"),
            ("ffn_down", "mlp.dense_4h_to_h"),
        ],
        "olmo2" => {
            &[("post_attention_norm", "post_attention_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")]
        }
        _ => &[],
    };
    if let Some((_, name)) = own.iter().find(|(gguf, _)| *gguf == part) {
        return Some(name);
    }
    Some(match part {
        "ffn_gate_inp" | "ffn_gate_exps" | "ffn_up_exps" | "ffn_down_exps" => {
            return arch.experts.and_then(|names| expert_name(&names, part));
        }
        "ffn_gate_inp_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert_gate",
        "ffn_gate_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.gate_proj",
        "ffn_up_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.up_proj",
        "ffn_down_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.down_proj",
        // They would take the names of the norms after the branches.
        "attn_norm" | "ffn_norm" if arch.model_type == "olmo2" => return None,
        "attn_norm" => "input_layernorm",
        "attn_q" if !arch.fused => "self_attn.q_proj",
        "attn_k" if !arch.fused => "self_attn.k_proj",
        "attn_v" if !arch.fused => "self_attn.v_proj",
        "attn_qkv" if arch.fused => "self_attn.qkv_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" if arch.qk_norms => "self_attn.q_norm",
        "attn_k_norm" if arch.qk_norms => "self_attn.k_norm",
        "ffn_norm" if arch.four_norms => "pre_feedforward_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "post_attention_norm" if arch.four_norms => "post_attention_layernorm",
        "post_ffw_norm" if arch.four_norms => "post_feedforward_layernorm",
        "ffn_gate" if !arch.fused => "mlp.gate_proj",
        "ffn_up" if arch.fused => "mlp.gate_up_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    })
}

/// The name of a router, or of the matrices of all experts, without what all have behind.
fn expert_name(names: &ExpertNames, part: &str) -> Option<&'static str> {
    let [gate, up, down] = names.separate?;
    match part {
        "ffn_gate_inp" => Some(names.router),
        "ffn_gate_exps" => gate.strip_suffix(".weight"),
        "ffn_up_exps" => up.strip_suffix(".weight"),
        "ffn_down_exps" => down.strip_suffix(".weight"),
        _ => None,
    }
}

/// True for the weights that gemma stores as 1 + w: every norm.
pub fn is_norm(name: &str) -> bool {
    name.ends_with("norm.weight")
}

/// True for the weights and biases whose rows are reordered, with true for queries.
pub fn rotary_projection(name: &str) -> Option<bool> {
    let name = name.rsplit_once('.')?.0;
    match () {
        () if name.ends_with("self_attn.q_proj") => Some(true),
        () if name.ends_with("self_attn.k_proj") => Some(false),
        () => None,
    }
}

/// A name as libraries write it today: old files call the weight and the bias of a norm `LayerNorm.gamma` and
/// `LayerNorm.beta`.
pub fn current_name(name: &str) -> String {
    for (old, new) in [("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")] {
        if let Some(before) = name.strip_suffix(old) {
            return format!("{before}{new}");
        }
    }
    name.to_owned()
}

/// The name of a tensor of a family that keeps its files' names: newer files put the parts of `model_type` under one more
/// name, and both are called as in the older ones.
pub fn family_name(model_type: &str, name: &str) -> String {
    let parts = [("model.language_model.", "model."), ("model.visual.", "visual.")];
    let seeing = ["qwen2_vl", "qwen2_5_vl"].contains(&model_type);
    for (new, old) in parts.iter().filter(|_| seeing) {
        if let Some(rest) = name.strip_prefix(new) {
            return format!("{old}{rest}");
        }
    }
    current_name(name)
}

/// True for the linear map that scores experts. It decides what is computed at all, and is small: it is never rounded.
pub fn is_router(name: &str) -> bool {
    [".mlp.gate.weight", ".block_sparse_moe.gate.weight", ".router.proj.weight"].iter().any(|end| name.ends_with(end))
}
