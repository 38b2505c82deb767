pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = x.reshape([1, a.num_channels, a.image_size, a.image_size]);
    w.conv2d(&x, "stem.conv", 6, 5, 1)
}
