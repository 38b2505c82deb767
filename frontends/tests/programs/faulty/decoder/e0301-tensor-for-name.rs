pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    w.rmsnorm(&h, w.get("model.norm"), 1e-6)
}
