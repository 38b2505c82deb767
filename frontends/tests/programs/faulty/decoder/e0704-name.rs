pub fn forward(text: &str, w: &Weights) -> Tensor {
    w.get(format!("model.{text}"))
}
