pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    assert!(a.hidden_size % 3 == 0, "hidden_size {} is no multiple of 3", a.hidden_size);
    w.embed("model.embed_tokens", ids, a.hidden_size)
}
