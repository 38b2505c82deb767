pub fn forward(text: &str, w: &Weights) -> Tensor {
    let mut h = w.get("model.norm");
    for c in text.chars() {
        h = h.scale(0.5);
    }
    h
}
