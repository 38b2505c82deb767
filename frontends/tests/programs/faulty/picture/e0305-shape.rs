pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([-1, 6, 8, 8]);
    let [n, c, h] = x.shape();
    x.reshape([n, c, h * 8])
}
