pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let window = config.architecture.get("head_dim");
    w.embed("model.embed_tokens", ids, window)
}
