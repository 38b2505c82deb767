pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let width = config.architecture.hidden_size;
    width(text.len())
}
