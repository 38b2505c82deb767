pub fn forward(x: &[u32], x: &Weights) -> Tensor {
    x.get("lm_head")
}
