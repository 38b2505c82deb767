pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let widths = [8, 16, 32];
    let i = 1 - 2;
    text.len() + widths[i]
}
