pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let a: usize = 3;
    let b: usize = 5;
    text.len() + (a - b)
}
