pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let layers = vec![1, 2, 3];
    layers.lenght()
}
