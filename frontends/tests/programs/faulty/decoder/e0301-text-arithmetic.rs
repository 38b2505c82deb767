pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let name = "model.layers.";
    let width = name - 1;
    text.len() + width
}
