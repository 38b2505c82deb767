pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut h = w.embed("model.embed_tokens", ids, 8);
    for i in config.architecture.num_hidden_layers {
        h = w.rmsnorm(&h, format!("model.layers.{i}.input_layernorm"), 1e-6);
    }
    h
}
