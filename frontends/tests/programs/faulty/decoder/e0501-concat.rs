pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    let wide = w.linear(&h, "model.layers.0.mlp.gate_proj", 16);
    Tensor::concat(&[h, wide], 0)
}
