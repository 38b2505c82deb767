pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let row = w.row("model.embed_tokens", 99);
    row
}
