pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([1, 4, 8, 8]);
    w.conv2d(&x, "stem.conv", 6, 3, 1)
}
