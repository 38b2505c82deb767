pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let mut h = w.embed("model.embed_tokens", ids, a.hidden_size);
    for i in 0..a.num_hidden_layers {
        let layer = format!("model.layers.{i}");
        h = w.rmsnorm(&h, format!("{layer}.input_layernorm"), a.layer_norm_eps);
    }
    h
}
