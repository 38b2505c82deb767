pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let mut h = w.embed("model.embed_tokens", ids, a.hidden_width);
    for i in 0..a.num_hidden_layers {
        let layer = format!("model.layers.{i}");
        let x = w.rmsnorm(&h, format!("{layer}.input_layernorm"), a.rms_norm_eps);
        let q = w.linear(&x, format!("{layer}.self_attn.q_proj"), a.num_attention_heads * a.head_dim);
        let (heads, size) = (a.num_attention_heads, a.head_dim);
        h = h + Tensor::attention(&q, &q, &q, heads, size);
    }
    let logits = w.linear(&h, "lm_head", a.vocab_size);
    if logits.dim(1) > 4 {
        return logits.silu();
    }
    logits
}
