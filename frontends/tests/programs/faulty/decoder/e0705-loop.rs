pub fn forward(ids: &[u32], w: &Weights, config: &Config) -> usize {
    for i in 0..config.architecture.num_hidden_layers {
        w.get(format!("model.layers.{i}.input_layernorm"));
    }
}
