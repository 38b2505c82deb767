pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mut hash = 2166136261u32;
    for byte in [104, 105] {
        hash = hash * 16777619;
    }
    text.len() + hash as usize
}
