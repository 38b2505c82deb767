//! Names that deepseek alone has: latent attention, and the correction of its router.

/// Tensors of a layer.
const INNER: [(&str, &str); 16] = [
    ("attn_q_a.weight", "self_attn.q_a_proj.weight"),
    ("attn_q_a.bias", "self_attn.q_a_proj.bias"),
    ("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"),
    ("attn_q_b.weight", "self_attn.q_b_proj.weight"),
    ("attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"),
    ("attn_kv_a_mqa.bias", "self_attn.kv_a_proj_with_mqa.bias"),
    ("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"),
    // In older files keys and values together, as elsewhere.
    ("attn_kv_b.weight", "self_attn.kv_b_proj.weight"),
    ("attn_k_b.weight", KEYS),
    ("attn_v_b.weight", VALUES),
    ("exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    ("ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"),
    ("ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"),
    ("ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"),
    ("ffn_gate_inp.weight", "mlp.gate.weight"),
    ("attn_output.bias", "self_attn.o_proj.bias"),
];

/// From narrow rows to the keys of all heads; files hold the matrix of each head turned, `[heads, rank, size]`.
pub const KEYS: &str = "self_attn.k_b_proj.weight";
/// From narrow rows to the values of all heads, `[heads, size, rank]`.
pub const VALUES: &str = "self_attn.v_b_proj.weight";

/// The name of a tensor of a layer, without what all of the layer begin with.
pub(super) fn inner(gguf: &str) -> Option<&'static str> {
    super::find(&INNER, gguf)
}
