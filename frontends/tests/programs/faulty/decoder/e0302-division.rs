pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let a = &config.architecture;
    let groups = a.num_attention_heads / (a.num_key_value_heads - 1);
    text.len() * groups
}
