pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let seed = 2166136261;
    let mixed = seed.wrapping_mul(16777619);
    text.len() + mixed
}
