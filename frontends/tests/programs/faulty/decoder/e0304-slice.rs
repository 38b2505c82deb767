pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let name = "model.layers";
    let end = &name[6..20];
    text.len() + end.len()
}
