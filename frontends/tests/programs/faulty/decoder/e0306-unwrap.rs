pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let window = config.architecture.get("sliding_window").unwrap();
    text.len() + window
}
