pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_token", ids, 8);
    w.rmsnorm(&h, "model.norm", 1e-6)
}
