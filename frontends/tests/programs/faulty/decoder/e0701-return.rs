pub fn forward(text: &str, w: &Weights) -> Tensor {
    if text.is_empty() {
        return w.get("lm_head");
    }
    w.get("model.norm")
}
