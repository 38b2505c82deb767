pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = x.reshape([-1, a.num_channels, a.image_size, a.image_size]);
    let x = w.conv2d(&x, "stem.convolution", a.embedding_size, 3, 1);
    w.linear(&x.mean([2, 3]), "head", a.num_labels)
}
