pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    let name = if h.max().lt(1.0) { "model.norm" } else { "lm_head" };
    w.get(name)
}
