pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    match config.architecture.hidden_act {
        "gelu" => w.embed("model.embed_tokens", ids, 8).gelu(),
        other => panic!("no such activation: {other}"),
    }
}
