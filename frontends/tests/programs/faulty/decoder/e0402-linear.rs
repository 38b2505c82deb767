pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    w.linear(&h, "model.layers.0.mlp.gate_proj", 32)
}
