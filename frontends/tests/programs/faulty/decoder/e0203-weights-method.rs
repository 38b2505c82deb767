pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embedding("model.embed_tokens", ids, 8);
    w.rms_norm(&h, "model.norm", 1e-6)
}
