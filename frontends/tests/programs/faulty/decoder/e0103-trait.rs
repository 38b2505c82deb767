trait Layer {
    fn apply(&self, x: &Tensor) -> Tensor;
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, 8)
}
