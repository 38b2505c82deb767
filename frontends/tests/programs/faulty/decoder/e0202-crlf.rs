pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    // Größe
    let h = w.embed("model.embed_tokens", ids, 8);
    h.scale(config.architecture.hiden_size)
}
