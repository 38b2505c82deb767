pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    let q = w.linear(&h, "model.layers.0.self_attn.k_proj", 4);
    w.rmsnorm(&q, "model.norm", 1e-6)
}
