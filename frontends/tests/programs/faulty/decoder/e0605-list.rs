pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let ones = vec![1; 1 << 30];
    text.len() + ones.len()
}
