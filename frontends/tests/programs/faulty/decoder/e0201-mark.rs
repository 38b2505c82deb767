pub fn forward(w: &Weights) -> Tensor { x }
