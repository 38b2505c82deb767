pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mut n = 0;
    while n < 10 {
        n *= 2;
    }
    text.len() + n
}
