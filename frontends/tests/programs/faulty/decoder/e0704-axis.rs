pub fn forward(text: &str, w: &Weights) -> Tensor {
    w.get("lm_head").softmax(text.len())
}
