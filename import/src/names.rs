//! Tensor names of GGUF files as Hugging Face names, by architecture.

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
    /// q, k, v in one tensor, gate and up in one.
    pub fused: bool,
    /// q and k have norms.
    pub qk_norms: bool,
    /// The names of experts, where layers may have some.
    pub experts: Option<ExpertNames>,
}

const PLAIN: GgufArch = GgufArch {
    name: "",
    model_type: "",
    interleaved: false,
    norms_plus_one: false,
    four_norms: false,
    fused: false,
    qk_norms: false,
    experts: None,
};

/// The architectures that are read.
pub const ARCHITECTURES: [GgufArch; 10] = [
    GgufArch { name: "llama", model_type: "llama", interleaved: true, experts: Some(ExpertNames::MIXTRAL), ..PLAIN },
    GgufArch { name: "qwen2", model_type: "qwen2", ..PLAIN },
    GgufArch { name: "qwen2moe", model_type: "qwen2_moe", experts: Some(ExpertNames::MLP), ..PLAIN },
    GgufArch { name: "qwen3", model_type: "qwen3", qk_norms: true, ..PLAIN },
    GgufArch { name: "qwen3moe", model_type: "qwen3_moe", qk_norms: true, experts: Some(ExpertNames::MLP), ..PLAIN },
    GgufArch { name: "phi3", model_type: "phi3", fused: true, ..PLAIN },
    GgufArch { name: "smollm3", model_type: "smollm3", interleaved: true, ..PLAIN },
    GgufArch { name: "granite", model_type: "granite", interleaved: true, ..PLAIN },
    GgufArch { name: "gemma", model_type: "gemma", norms_plus_one: true, ..PLAIN },
    GgufArch { name: "gemma3", model_type: "gemma3", norms_plus_one: true, four_norms: true, qk_norms: true, ..PLAIN },
];

/// The architecture of a name.
pub fn architecture(name: &str) -> Option<&'static GgufArch> {
    ARCHITECTURES.iter().find(|a| a.name == name)
}

/// The Hugging Face name of a GGUF tensor.
pub fn hugging_face_name(arch: &GgufArch, gguf: &str) -> Mapped {
    match gguf {
        "token_embd.weight" => return Mapped::Tensor("model.embed_tokens.weight".into()),
        "output_norm.weight" => return Mapped::Tensor("model.norm.weight".into()),
        "output.weight" => return Mapped::Tensor("lm_head.weight".into()),
        "rope_freqs.weight" => return Mapped::RopeFactors(RopeFactors::Always),
        "rope_factors_long.weight" => return Mapped::RopeFactors(RopeFactors::Long),
        "rope_factors_short.weight" => return Mapped::RopeFactors(RopeFactors::Short),
        _ => {}
    }
    let Some((layer, part)) = gguf.strip_prefix("blk.").and_then(|r| r.split_once('.')) else {
        return Mapped::Unknown;
    };
    // A number in its only spelling, so that two names cannot mean one tensor.
    let plain = !layer.is_empty()
        && layer.len() <= 6
        && layer.bytes().all(|b| b.is_ascii_digit())
        && (layer == "0" || !layer.starts_with('0'));
    if !plain {
        return Mapped::Unknown;
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
    let name = match part {
        "ffn_gate_inp" | "ffn_gate_exps" | "ffn_up_exps" | "ffn_down_exps" => {
            let Some(name) = arch.experts.and_then(|names| expert_name(&names, part)) else { return Mapped::Unknown };
            name
        }
        "ffn_gate_inp_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert_gate",
        "ffn_gate_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.gate_proj",
        "ffn_up_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.up_proj",
        "ffn_down_shexp" if arch.name == "qwen2moe" => "mlp.shared_expert.down_proj",
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
        _ => return Mapped::Unknown,
    };
    Mapped::Tensor(format!("model.layers.{layer}.{name}.{kind}"))
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

/// A Hugging Face name in its usual form: the text part of a multimodal file, and names without the `model.` in front.
pub fn usual_name(name: &str) -> String {
    let name =
        name.strip_prefix("language_model.").or_else(|| name.strip_prefix("model.language_model.")).unwrap_or(name);
    let bare = ["layers.", "embed_tokens.", "embed_tokens_per_layer.", "norm.", "per_layer_"]
        .iter()
        .any(|p| name.starts_with(p));
    if bare { format!("model.{name}") } else { name.to_owned() }
}

/// True for tensors of a picture or sound tower, which the text part does without.
pub fn is_other_tower(name: &str) -> bool {
    let name = name.strip_prefix("model.").unwrap_or(name);
    ["vision_tower.", "multi_modal_projector.", "audio_tower.", "visual.", "embed_vision.", "embed_audio."]
        .iter()
        .any(|p| name.starts_with(p))
}

/// True for the linear map that scores experts. It decides what is computed at all, and is small: it is never rounded.
pub fn is_router(name: &str) -> bool {
    [".mlp.gate.weight", ".block_sparse_moe.gate.weight", ".router.proj.weight"].iter().any(|end| name.ends_with(end))
}

/// True for buffers that old files hold and that carry nothing.
pub fn is_leftover(name: &str) -> bool {
    ["rotary_emb.inv_freq", "position_ids", "token_type_ids", "num_batches_tracked", "attn.masked_bias"]
        .iter()
        .any(|s| name.ends_with(s))
}
