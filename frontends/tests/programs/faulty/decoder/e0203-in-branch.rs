pub fn forward(text: &str, config: &Config, w: &Weights) -> String {
    if text.len() > 3 {
        text.to_upper_case()
    } else {
        String::new()
    }
}
