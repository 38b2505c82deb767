pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let size = config.architecture.patch_size.unwrap_or(4) + config.architecture.paddings;
    x.reshape([-1, 3, size, size])
}
