//! Names that gemma 4 alone has.

/// Tensors outside of layers, with their names behind the decoder's prefix.
const OUTER: [(&str, &str); 3] = [
    ("per_layer_token_embd.weight", "embed_tokens_per_layer.weight"),
    ("per_layer_model_proj.weight", "per_layer_model_projection.weight"),
    ("per_layer_proj_norm.weight", "per_layer_projection_norm.weight"),
];

/// Tensors of a layer.
const INNER: [(&str, &str); 12] = [
    ("layer_output_scale.weight", "layer_scalar"),
    ("inp_gate.weight", "per_layer_input_gate.weight"),
    ("proj.weight", "per_layer_projection.weight"),
    ("post_norm.weight", "post_per_layer_input_norm.weight"),
    ("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"),
    ("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"),
    ("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"),
    ("ffn_gate_inp.weight", "router.proj.weight"),
    ("ffn_gate_inp.scale", "router.scale"),
    ("ffn_down_exps.scale", "router.per_expert_scale"),
    ("ffn_gate_up_exps.weight", "experts.gate_up_proj"),
    ("ffn_down_exps.weight", "experts.down_proj"),
];

/// The name of a tensor outside of layers, without the decoder's prefix.
pub(super) fn outer(gguf: &str) -> Option<&'static str> {
    super::find(&OUTER, gguf)
}

/// The name of a tensor of a layer, without what all of the layer begin with.
pub(super) fn inner(gguf: &str) -> Option<&'static str> {
    super::find(&INNER, gguf)
}
