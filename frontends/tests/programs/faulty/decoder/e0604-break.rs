pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let n = text.len();
    if config.architecture.hidden_size > 4 {
        break;
    }
    n
}
