pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let table = w.get("model.embed_tokens");
    table.select(0, 40)
}
