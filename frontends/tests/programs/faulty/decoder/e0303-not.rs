pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let layers = config.architecture.num_hidden_layers;
    if !layers > 0 && layers || true {
        return w.get("model.norm");
    }
    w.get("lm_head")
}
