pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mut n = 0u64;
    for i in 0..1_000_000_000u64 {
        n += i;
    }
    text.len() + n
}
