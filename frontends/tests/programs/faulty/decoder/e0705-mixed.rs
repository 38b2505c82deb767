pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> (Tensor, Weights) {
    let h = w.embed("model.embed_tokens", ids, 8);
    (h, w)
}
