pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mask = 1u32 << 40;
    text.len() + mask as usize
}
