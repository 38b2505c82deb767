pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let layers = config.architecture.num_hidden_layers;
    if layers { text.len() } else { 0 }
}
