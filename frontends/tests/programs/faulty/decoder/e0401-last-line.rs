pub fn forward(w: &Weights) -> Tensor {
    w.get("model.norms") }