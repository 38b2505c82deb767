pub fn forward(ids: &[u32], options: (usize, f32), w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, options.0)
}
