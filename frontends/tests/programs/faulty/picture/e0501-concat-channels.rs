pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([-1, 3, 8, 8]);
    let y = w.conv2d(&x, "stem.conv", 6, 3, 2);
    Tensor::concat(&[x, y], 1)
}
