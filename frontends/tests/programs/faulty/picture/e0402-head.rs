pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([-1, 3, 8, 8]);
    let x = w.conv2d(&x, "stem.conv", 6, 3, 1);
    w.linear(&x.mean([2, 3]), "head", 1000)
}
