pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let mut name = String::from("model");
    loop {
        name = name.repeat(64);
    }
    text.len()
}
