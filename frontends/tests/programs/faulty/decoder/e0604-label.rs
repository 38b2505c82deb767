pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    for i in 0..3 {
        if i == 1 {
            break 'outer;
        }
    }
    text.len()
}
