pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let hidden = w.embed("model.embed_tokens", ids, config.architecture.hidden_size);
    w.rmsnorm(&hiden, "model.norm", 1e-6)
}
