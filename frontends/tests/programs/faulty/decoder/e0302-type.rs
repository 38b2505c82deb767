pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let small: u8 = 300;
    text.len() + small as usize
}
