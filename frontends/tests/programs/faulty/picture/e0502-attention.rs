pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([-1, 3, 8, 8]);
    Tensor::self_attention(&x, 2, 4)
}
