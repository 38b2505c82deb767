pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.get("model\qnorm")
}
