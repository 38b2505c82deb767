pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let project = |x, part| w.linear(x, format!("model.layers.0.mlp.{part}_proj"), 16);
    project(&w.embed("model.embed_tokens", ids, 8))
}
