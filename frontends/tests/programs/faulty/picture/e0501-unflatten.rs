pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let x = x.reshape([1, 12, 6]);
    x.unflatten_patches(4, 4)
}
