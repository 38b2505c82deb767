pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.rmsnorm(config.architecture.hidden_size, "model.norm", 1e-6)
}
