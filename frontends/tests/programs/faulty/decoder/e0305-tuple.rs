pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let (a, b) = (1, 2, 3);
    text.len() + a + b
}
