pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let Some(window) = config.architecture.get("sliding_window");
    text.len() + window
}
