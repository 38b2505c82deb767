pub fn forward(text: &str, w: &Weights) -> Tensor {
    if text.len() > 10 {
        w.get("lm_head")
    } else {
        w.get("model.embed_tokens")
    }
}
