pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mut n = 1;
    n + 1 = text.len();
    n
}
