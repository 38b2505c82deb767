pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    assert_eq!(a.num_attention_heads * a.head_dim, a.intermediate_size);
    w.embed("model.embed_tokens", ids, a.hidden_size)
}
