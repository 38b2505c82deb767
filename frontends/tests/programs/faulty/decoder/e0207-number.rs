pub fn forward(ids: &[u32], temperature: f32, w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, 8).scale(temperature)
}
