pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, 0 - 8)
}
