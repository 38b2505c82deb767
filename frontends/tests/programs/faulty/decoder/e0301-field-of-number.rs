pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let width = config.architecture.hidden_size.value;
    text.len() + width
}
