pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([1, 6, 2, 2]);
    w.conv2d(&x, "deep", 12, 3, 1, 0)
}
