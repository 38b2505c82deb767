pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([-1, 3, 8, 8]);
    x.permute([0, 2, 1])
}
