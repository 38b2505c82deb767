pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.get("lm_head").softmax("last")
}
